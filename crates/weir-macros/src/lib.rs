//! `#[weir::subscribe("filter")]` turns a function into a subscription whose filter is checked at compile
//! time. A mistake in the filter is a compiler error at the filter's text.
#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use proc_macro2::{Span, TokenStream as Tokens};
use quote::quote;
use std::path::{Path, PathBuf};
use syn::parse::{Parse, ParseStream};
use syn::{FnArg, ItemFn, LitStr, Token, Type};
use weir_compile::StackCatalog;
use weir_lang::Library;
use weir_lang::diag::{Diagnostics, Sources};

/// The arguments of the attribute: the filter, and the stack that it is checked against.
struct Arguments {
    filter: LitStr,
    stack: Option<LitStr>,
}

impl Parse for Arguments {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let filter = input.parse()?;
        let mut stack = None;
        if input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let name: syn::Ident = input.parse()?;
            if name != "stack" {
                return Err(syn::Error::new(name.span(), "only `stack = \"…\"` may follow the filter"));
            }
            input.parse::<Token![=]>()?;
            stack = Some(input.parse()?);
        }
        Ok(Self { filter, stack })
    }
}

/// Turns a function of up to three references (`&TlsHandshake`, `&Connection` …) into a subscription for
/// `Engine::add_checked`.
///
/// ```text
/// #[weir::subscribe("tls.sni matches '[.]com$'")]
/// fn print_name(hello: &TlsHandshake) {
///     println!("{}", hello.server_name().unwrap_or_default());
/// }
/// ```
///
/// The filter is checked against the stack `internet`, or against the stack in `stack = "pptp"` after the
/// filter. `stack = "mine.weir"` is the last stack of a file, relative to the folder of the crate's
/// `Cargo.toml`.
#[proc_macro_attribute]
pub fn subscribe(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let arguments = syn::parse_macro_input!(arguments as Arguments);
    let function = syn::parse_macro_input!(item as ItemFn);
    expand(&arguments, &function).unwrap_or_else(|wrong| wrong.to_compile_error()).into()
}

fn expand(arguments: &Arguments, function: &ItemFn) -> syn::Result<Tokens> {
    let checked = check(arguments)?;
    let data = data_of(function)?;
    let (filter, name, visibility) = (&arguments.filter, &function.sig.ident, &function.vis);
    let (attributes, output) = (&function.attrs, &function.sig.output);
    let (stack, files) = (&checked.stack, &checked.files);
    let result = match output {
        syn::ReturnType::Default => quote!(()),
        syn::ReturnType::Type(_, result) => quote!(#result),
    };
    let mut inner = function.clone();
    inner.attrs.clear();
    inner.vis = syn::Visibility::Inherited;
    Ok(quote! {
        #(#attributes)*
        #[allow(non_upper_case_globals)]
        #visibility const #name: ::weir::Checked<(#(#data,)*), fn(#(&#data),*) -> #result> = {
            #inner
            // The compiler checks the filter again after a change of these files.
            #(const _: &str = include_str!(#files);)*
            ::weir::Checked::new(#filter, #stack, #name)
        };
    })
}

/// The types that the function's parameters refer to.
fn data_of(function: &ItemFn) -> syn::Result<Vec<&Type>> {
    let signature = &function.sig;
    if !signature.generics.params.is_empty() || signature.asyncness.is_some() || signature.unsafety.is_some()
    {
        let message = "a subscription is a plain function: not generic, async or unsafe";
        return Err(syn::Error::new_spanned(signature, message));
    }
    let takes = "a subscription takes one to three references: `&TlsHandshake`, `&Connection`, `&Frame` …";
    if signature.inputs.is_empty() || signature.inputs.len() > 3 {
        return Err(syn::Error::new_spanned(signature, takes));
    }
    let of = |argument: &'_ FnArg| match argument {
        FnArg::Typed(typed) => match &*typed.ty {
            Type::Reference(reference) if reference.mutability.is_none() => Ok(()),
            other => Err(syn::Error::new_spanned(other, takes)),
        },
        FnArg::Receiver(this) => Err(syn::Error::new_spanned(this, takes)),
    };
    signature.inputs.iter().try_for_each(of)?;
    let referred = |argument| match argument {
        &FnArg::Typed(syn::PatType { ref ty, .. }) => match &**ty {
            Type::Reference(reference) => Some(&*reference.elem),
            _ => None,
        },
        FnArg::Receiver(_) => None,
    };
    Ok(signature.inputs.iter().filter_map(referred).collect())
}

/// The stack that a filter was checked against.
struct CheckedAgainst {
    /// Its name.
    stack: String,
    /// The files that were read for it, by absolute paths.
    files: Vec<String>,
}

/// Checks the filter as the command line does.
fn check(arguments: &Arguments) -> syn::Result<CheckedAgainst> {
    let mut library = Library::builtin();
    let (mut name, mut files) = ("internet".to_string(), vec![]);
    if let Some(wanted) = &arguments.stack {
        name = wanted.value();
        if name.ends_with(".weir") {
            (name, files) =
                add_file(&mut library, &name).map_err(|message| syn::Error::new(wanted.span(), message))?;
        }
    }
    let Some(stack) = library.stack(&name) else {
        let known: Vec<&str> = library.stacks().iter().map(|stack| stack.name.as_str()).collect();
        let message = format!(
            "there is no stack `{name}`; there are: {}, and files `NAME.weir` with stacks of your own",
            known.join(", ")
        );
        let span = arguments.stack.as_ref().map_or_else(Span::call_site, LitStr::span);
        return Err(syn::Error::new(span, message));
    };
    let text = arguments.filter.value();
    match weir_lang::filter::compile(&text, &StackCatalog::with_builtin_sessions(stack)) {
        Ok(_) => Ok(CheckedAgainst { stack: name, files }),
        Err(list) => {
            let mut sources = Sources::new();
            sources.add("filter", text.as_str());
            let rendered = Diagnostics { sources, list }.render(false);
            Err(syn::Error::new(arguments.filter.span(), format!("the filter is invalid\n{rendered}")))
        }
    }
}

/// Adds the protocols and stacks of a file, relative to the crate's folder. Returns the name of its last
/// stack, and the files that were read.
fn add_file(library: &mut Library, file: &str) -> Result<(String, Vec<String>), String> {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let path = folder.join(file);
    let text = weir_lang::read_text(&path).map_err(|wrong| format!("{}: {wrong}", path.display()))?;
    let mut files = vec![path.display().to_string()];
    let read = &mut |path: &Path| {
        files.push(path.display().to_string());
        weir_lang::read_text(path)
    };
    let added = library.extend_with_imports(&path.display().to_string(), &text, read);
    added.map_err(|wrong| format!("the stack is invalid\n{}", wrong.render(false)))?;
    match library.latest_stacks().last() {
        Some(stack) => Ok((stack.to_string(), files)),
        None => Err(format!("{file} declares no stack: add `stack mine extends internet {{ … }}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use syn::parse_quote;

    fn expanded(arguments: Arguments, function: ItemFn) -> Result<String, String> {
        expand(&arguments, &function).map(|tokens| tokens.to_string()).map_err(|wrong| wrong.to_string())
    }

    #[test]
    fn a_right_one_becomes_a_constant() {
        let function = parse_quote! { fn log(flow: &Flow, hello: &TlsHandshake) { drop((flow, hello)); } };
        let text = expanded(parse_quote!("tls.sni matches \"com$\""), function).expect("it is right");
        assert!(text.contains("const log : :: weir :: Checked < (Flow , TlsHandshake ,)"), "{text}");
    }

    #[test]
    fn what_is_wrong_with_a_filter_is_said_with_its_remedy() {
        let function: ItemFn = parse_quote! { fn log(hello: &TlsHandshake) {} };
        let wrong = expanded(parse_quote!("tls.sny == \"a\""), function.clone()).expect_err("no such field");
        assert!(wrong.contains("tls.sny") && wrong.contains("tls.sni"), "{wrong}");
        let wrong = expanded(parse_quote!("tls.sni == 443"), function.clone()).expect_err("of another type");
        assert!(wrong.contains("W0107"), "{wrong}");
        let wrong = expanded(parse_quote!("tls", stack = "nine"), function).expect_err("no such stack");
        assert!(wrong.contains("there are: "), "{wrong}");
    }

    #[test]
    fn errors_stand_at_the_text_that_is_wrong() {
        let function: ItemFn = parse_quote! { fn log(hello: &TlsHandshake) {} };
        for (text, wrong) in [
            (r#" "tls.sny == 'a'" "#, r#""tls.sny == 'a'""#),
            (r#" "tls.sni == 443", stack = "internet" "#, r#""tls.sni == 443""#),
            (r#" "tls", stack = "nine" "#, r#""nine""#),
            (r#" "tls", pile = "nine" "#, "pile"),
        ] {
            let error = match syn::parse_str::<Arguments>(text) {
                Ok(arguments) => expand(&arguments, &function).expect_err("it is wrong"),
                Err(error) => error,
            };
            assert_eq!(error.span().source_text().as_deref(), Some(wrong), "{error}");
        }
    }

    #[test]
    fn the_stack_decides_which_fields_there_are() {
        let function: ItemFn = parse_quote! { fn log(connection: &Connection) {} };
        assert!(expanded(parse_quote!("pptp.type == 1"), function.clone()).is_err());
        assert!(expanded(parse_quote!("pptp.type == 1", stack = "pptp"), function).is_ok());
    }

    #[test]
    fn a_stack_may_be_in_a_file() {
        let function: ItemFn = parse_quote! { fn log(connection: &Connection) {} };
        let file =
            |filter: LitStr, stack: LitStr| expanded(parse_quote!(#filter, stack = #stack), function.clone());
        let right = file(parse_quote!("bfd.state == 3"), parse_quote!("../../examples/bfd.weir"));
        let right = right.expect("the file has a stack with this layer");
        assert!(right.contains("include_str") && right.contains("bfd.weir"), "{right}");
        let wrong = file(parse_quote!("bfd.stat == 3"), parse_quote!("../../examples/bfd.weir"));
        assert!(wrong.expect_err("no such field").contains("bfd.state"));
        let wrong = file(parse_quote!("bfd.state == 3"), parse_quote!("no.weir")).expect_err("no such file");
        assert!(wrong.contains("no.weir"), "{wrong}");
    }

    #[test]
    fn only_plain_functions_of_references_will_do() {
        for function in [
            parse_quote! { fn log(hello: TlsHandshake) {} },
            parse_quote! { fn log(hello: &mut TlsHandshake) {} },
            parse_quote! { fn log() {} },
            parse_quote! { fn log<T>(hello: &T) {} },
        ] {
            assert!(expanded(parse_quote!("tls"), function).is_err());
        }
    }
}
