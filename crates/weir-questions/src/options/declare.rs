//! The macro that declares options.

/// Declares a struct of options, its defaults, and its table ([`Options`](crate::options::Options)):
///
/// ```ignore
/// options! {
///     /// The options of a walk.
///     #[derive(Clone)]
///     pub struct Walk {
///         "Path" {
///             /// Walk this far
///             far: u64 = 3 => kilometres, short('f'), shown("KM");
///             /// Where to
///             to: Option<PathBuf>, shown("PLACE");
///         }
///     }
///     beside {
///         /// Not an option: set by the program.
///         pub number: usize;
///     }
/// }
/// ```
///
/// `beside` declares fields that are no options. Behind the type come the default, if it is not that of the
/// type; the function that reads a word, if it is not that of the type; and methods of
/// [`Declared`](crate::options::Declared).
#[macro_export]
macro_rules! options {
    (
        $(#[$about:meta])*
        pub struct $Name:ident {
            $($group:literal {
                $(
                    $(#[doc = $line:literal])*
                    $field:ident $(as $name:literal)? : $type:ty $(= $default:expr)? $(=> $parse:path)?
                    $(, $key:ident($($value:expr),*))* ;
                )*
            })*
        }
        beside {
            $( $(#[doc = $own:literal])* pub $extra:ident: $extra_type:ty; )*
        }
    ) => {
        $(#[$about])*
        pub struct $Name {
            $($( $(#[doc = $line])* pub $field: $type, )*)*
            $( $(#[doc = $own])* pub $extra: $extra_type, )*
        }

        impl Default for $Name {
            fn default() -> Self {
                Self {
                    $($( $field: $crate::options!(@default $type $(, $default)?), )*)*
                    $( $extra: Default::default(), )*
                }
            }
        }

        impl $crate::options::Options for $Name {
            const TABLE: &'static [$crate::options::Declared<Self>] = &[$($(
                $crate::options!(@shown {
                    $crate::options::Declared::new::<$type>(
                        ($crate::options!(@name $field $($name)?), $group, &[$($line),*]),
                        |options: &mut $Name, word| {
                            let item = $crate::options!(@item $type, word $(, $parse)?)?;
                            $crate::options::OptionValue::put(&mut options.$field, item);
                            Ok(())
                        },
                        |options: &mut $Name| {
                            options.$field = $crate::options!(@default $type $(, $default)?);
                        },
                        |options: &$Name| $crate::options::OptionValue::json(&options.$field),
                    )
                    $(.$key($($value),*))*
                } $($default)?),
            )*)*];
        }
    };
    (@default $type:ty) => { <$type as Default>::default() };
    (@default $type:ty, $default:expr) => { $default };
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@shown { $option:expr }) => { $option };
    (@shown { $option:expr } $default:expr) => { $option.with_default() };
    (@item $type:ty, $word:ident) => {
        <<$type as $crate::options::OptionValue>::Item as $crate::options::Word>::of_word($word)
    };
    (@item $type:ty, $word:ident, $parse:path) => { $crate::options::text_of($word).and_then($parse) };
}
