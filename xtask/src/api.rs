//! `cargo xtask api [--check]` writes the public API of the library `weir` to `docs/api.md`, one line per
//! item.
//!
//! The page is made from the sources: what `lib.rs` declares or re-exports as `pub`, module by module, with
//! the first sentence of its documentation: fields, variants, functions, associated types and constants. A
//! re-export of an item of another crate of this workspace is followed to its declaration. Of a crate that is
//! re-exported as a whole, the page shows its root, and the names of the modules below. Items of other
//! crates, and items made by macros, are named only. `--check`, and the test in this file, fail if the page
//! is not what the sources say.

use std::collections::{BTreeMap, BTreeSet};
use syn::spanned::Spanned;

use crate::modules::{self, Module, Source};
use crate::shell::{Result, read, root, said, write};

/// The crate whose API the page shows.
const LIBRARY: &str = "weir";
const PAGE: &str = "docs/api.md";

const HEAD: &str = "\
# The public API of `weir`

Made by `cargo xtask api`; `cargo xtask ci` and `cargo test -p xtask` fail when this page is not current. One line per
item: what the crate declares, and what it re-exports. Examples: `cargo doc -p weir --open`.
";

pub fn run(args: &[String]) -> Result {
    let page = page(&parse()?);
    let file = root().join(PAGE);
    if read(&file).is_ok_and(|old| old == page) {
        return Ok(());
    }
    if args.iter().any(|arg| arg == "--check") {
        return Err(format!("{PAGE} is stale\n  run `cargo xtask api`, read the difference, commit it"));
    }
    write(&file, page)?;
    eprintln!("{PAGE}");
    Ok(())
}

/// The sources of all crates. The first name of a module is that of its crate.
type Files = BTreeMap<Module, syn::File>;

/// Parses the sources of all crates of the workspace.
fn parse() -> Result<Files> {
    let mut files = Files::new();
    for entry in std::fs::read_dir(root().join("crates")).map_err(said("crates"))? {
        let path = entry.map_err(said("crates"))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().replace('-', "_")).unwrap_or_default();
        for (module, Source { file, .. }) in modules::parse(&path.join("src"))? {
            files.insert([vec![name.clone()], module].concat(), file);
        }
    }
    Ok(files)
}

/// The page of the library.
fn page(files: &Files) -> String {
    let mut page = HEAD.to_string();
    let mut modules = vec![(LIBRARY.to_string(), vec![LIBRARY.to_string()])];
    while let Some((shown, module)) = modules.pop() {
        let listed = Listed::of(files, &module);
        page += &format!("\n## `{shown}`\n\n");
        listed.items.values().for_each(|lines| page += lines);
        for (name, path) in &listed.others {
            page += &format!("- `{name}`: re-export of `{path}`\n");
        }
        let is_own = module[0] == LIBRARY;
        if is_own {
            let crates = listed.crates.into_iter();
            modules.extend(crates.rev().map(|(name, of)| (format!("{shown}::{name}"), vec![of])));
            let below = listed.modules.into_iter().rev();
            modules.extend(
                below.map(|name| (format!("{shown}::{name}"), [module.clone(), vec![name]].concat())),
            );
        } else if !listed.modules.is_empty() {
            let names: Vec<String> = listed.modules.iter().map(|name| format!("`{name}`")).collect();
            page += &format!("- modules: {}\n", names.join(", "));
        }
    }
    page
}

/// The public items of a module.
#[derive(Default)]
struct Listed {
    /// The lines of each item, by name.
    items: BTreeMap<String, String>,
    /// Items that are only named.
    others: BTreeMap<String, String>,
    modules: BTreeSet<String>,
    /// Crates of the workspace that are re-exported as a whole, by the names that they get.
    crates: BTreeMap<String, String>,
}

impl Listed {
    fn of(files: &Files, module: &Module) -> Self {
        let mut listed = Self::default();
        for item in files.get(module).iter().flat_map(|file| &file.items) {
            match item {
                syn::Item::Use(import) if is_public(&import.vis) && !is_hidden(&import.attrs) => {
                    for (path, name) in modules::imported(&import.tree) {
                        listed.add(files, module, &path, &name, 0);
                    }
                }
                syn::Item::Mod(inner) if is_public(&inner.vis) && !is_hidden(&inner.attrs) => {
                    listed.modules.insert(inner.ident.to_string());
                }
                item => {
                    if let Some(declared) = Declared::of(item).filter(|declared| declared.is_public) {
                        listed.items.insert(declared.name.clone(), declared.lines(files, module));
                    }
                }
            }
        }
        listed
    }

    /// Follows a re-export to the declaration of the item.
    fn add(&mut self, files: &Files, module: &Module, path: &[String], name: &str, depth: usize) {
        let is_listed = match start(files, module, path).filter(|_| depth < 8) {
            Some((of, [])) => {
                self.crates.insert(name.to_string(), of[0].clone());
                true
            }
            Some((at, rest)) => self.declared(files, at, rest, name, depth),
            None => false,
        };
        if !is_listed {
            self.others.insert(name.to_string(), path.join("::"));
        }
    }

    /// Adds the item at a path; returns false if there is no such item.
    fn declared(
        &mut self,
        files: &Files,
        mut at: Module,
        mut rest: &[String],
        name: &str,
        depth: usize,
    ) -> bool {
        while let [below, tail @ ..] = rest {
            let below = [at.clone(), vec![below.clone()]].concat();
            if tail.is_empty() || !files.contains_key(&below) {
                break;
            }
            (at, rest) = (below, tail);
        }
        let Some(wanted) = rest.first() else { return false };
        for item in files.get(&at).iter().flat_map(|file| &file.items) {
            if let syn::Item::Use(import) = item {
                let imported = modules::imported(&import.tree);
                if let Some((path, _)) = imported.iter().find(|(_, called)| called == wanted) {
                    self.add(files, &at, path, name, depth + 1);
                    return true;
                }
            }
            if let Some(declared) = Declared::of(item).filter(|declared| declared.name == *wanted) {
                let lines = Declared { shown: name.to_string(), ..declared }.lines(files, &at);
                self.items.insert(name.to_string(), lines);
                return true;
            }
        }
        false
    }
}

/// The module that a path begins at, and what of the path is left; `None` for crates outside of the
/// workspace.
fn start<'p>(files: &Files, module: &Module, path: &'p [String]) -> Option<(Module, &'p [String])> {
    let is_module = |module: &Module| files.contains_key(module);
    match path.first()?.as_str() {
        "crate" => Some((vec![module[0].clone()], &path[1..])),
        name if is_module(&vec![name.to_string()]) => Some((vec![name.to_string()], &path[1..])),
        _ => modules::start(module, path, is_module),
    }
}

/// The declaration of an item.
struct Declared<'a> {
    kind: &'static str,
    name: String,
    /// The name by which it is public.
    shown: String,
    /// What the declaration says after the name: type parameters, or the type and value of a constant.
    more: String,
    /// In place of kind and name: a function's signature.
    signature: Option<String>,
    attributes: &'a [syn::Attribute],
    is_public: bool,
    /// The lines of its fields, variants, or the items of a trait.
    parts: Vec<String>,
}

impl<'a> Declared<'a> {
    fn of(item: &'a syn::Item) -> Option<Self> {
        let (kind, name, attributes, visibility) = match item {
            syn::Item::Struct(it) => ("struct", &it.ident, &it.attrs, &it.vis),
            syn::Item::Enum(it) => ("enum", &it.ident, &it.attrs, &it.vis),
            syn::Item::Trait(it) => ("trait", &it.ident, &it.attrs, &it.vis),
            syn::Item::Type(it) => ("type", &it.ident, &it.attrs, &it.vis),
            syn::Item::Const(it) => ("const", &it.ident, &it.attrs, &it.vis),
            syn::Item::Static(it) => ("static", &it.ident, &it.attrs, &it.vis),
            syn::Item::Fn(it) => ("fn", &it.sig.ident, &it.attrs, &it.vis),
            _ => return None,
        };
        let more = match item {
            syn::Item::Struct(it) => source(&it.generics),
            syn::Item::Enum(it) => source(&it.generics),
            syn::Item::Trait(it) if it.supertraits.is_empty() => source(&it.generics),
            syn::Item::Trait(it) => format!("{}: {}", source(&it.generics), source(&it.supertraits)),
            syn::Item::Type(it) => format!("{} = {}", source(&it.generics), source(&it.ty)),
            syn::Item::Const(it) => match &*it.expr {
                syn::Expr::Lit(value) => format!(": {} = {}", source(&it.ty), source(value)),
                _ => format!(": {}", source(&it.ty)),
            },
            syn::Item::Static(it) => format!(": {}", source(&it.ty)),
            _ => String::new(),
        };
        let parts = match item {
            syn::Item::Struct(it) => fields(&it.fields, is_public),
            syn::Item::Enum(it) => it.variants.iter().flat_map(variant).collect(),
            syn::Item::Trait(it) => it.items.iter().filter_map(trait_part).collect(),
            _ => vec![],
        };
        Some(Self {
            kind,
            name: name.to_string(),
            shown: name.to_string(),
            more,
            signature: if let syn::Item::Fn(it) = item { Some(source(&it.sig)) } else { None },
            attributes,
            is_public: is_public(visibility) && !is_hidden(attributes),
            parts,
        })
    }

    /// Its line, and those of its parts. `module` declares it.
    fn lines(&self, files: &Files, module: &Module) -> String {
        let shown = || format!("{} {}{}", self.kind, self.shown, self.more);
        let mut lines = line("- ", &self.signature.clone().unwrap_or_else(shown), self.attributes);
        self.parts.iter().for_each(|part| lines += part);
        let own = files.iter().filter(|(of, _)| of[0] == module[0]).flat_map(|(_, file)| &file.items);
        for block in own.filter_map(inherent) {
            let syn::Type::Path(of) = &*block.self_ty else { continue };
            if of.path.segments.last().is_some_and(|last| last.ident == self.name) {
                block.items.iter().filter_map(inherent_part).for_each(|part| lines += &part);
            }
        }
        lines
    }
}

/// The lines of the fields that `is_shown` selects by their visibility.
fn fields(fields: &syn::Fields, is_shown: fn(&syn::Visibility) -> bool) -> Vec<String> {
    let shown = fields.iter().enumerate().filter(|(_, it)| is_shown(&it.vis) && !is_hidden(&it.attrs));
    let name = |(number, it): &(usize, &syn::Field)| match &it.ident {
        Some(name) => name.to_string(),
        None => number.to_string(),
    };
    shown.map(|it| line("  - ", &format!("{}: {}", name(&it), source(&it.1.ty)), &it.1.attrs)).collect()
}

/// The line of a variant, and those of its fields if they have names.
fn variant(variant: &syn::Variant) -> Vec<String> {
    if is_hidden(&variant.attrs) {
        return vec![];
    }
    let (shown, below) = match &variant.fields {
        syn::Fields::Unnamed(types) => (format!("{}{}", variant.ident, source(types)), vec![]),
        named => (variant.ident.to_string(), fields(named, |_| true)),
    };
    let own = line("  - ", &shown, &variant.attrs);
    [own].into_iter().chain(below.into_iter().map(|below| format!("  {below}"))).collect()
}

/// The line of an item of a trait.
fn trait_part(item: &syn::TraitItem) -> Option<String> {
    let (shown, attributes) = match item {
        syn::TraitItem::Fn(it) => (source(&it.sig), &it.attrs),
        syn::TraitItem::Const(it) => (format!("const {}: {}", it.ident, source(&it.ty)), &it.attrs),
        syn::TraitItem::Type(it) if it.bounds.is_empty() => (format!("type {}", it.ident), &it.attrs),
        syn::TraitItem::Type(it) => (format!("type {}: {}", it.ident, source(&it.bounds)), &it.attrs),
        _ => return None,
    };
    (!is_hidden(attributes)).then(|| line("  - ", &shown, attributes))
}

/// The line of a public item in a block of a type's own items.
fn inherent_part(item: &syn::ImplItem) -> Option<String> {
    let (shown, attributes, visibility) = match item {
        syn::ImplItem::Fn(it) => (source(&it.sig), &it.attrs, &it.vis),
        syn::ImplItem::Const(it) => (format!("const {}: {}", it.ident, source(&it.ty)), &it.attrs, &it.vis),
        _ => return None,
    };
    (is_public(visibility) && !is_hidden(attributes)).then(|| line("  - ", &shown, attributes))
}

/// A block of a type's own items.
fn inherent(item: &syn::Item) -> Option<&syn::ItemImpl> {
    match item {
        syn::Item::Impl(block) if block.trait_.is_none() => Some(block),
        _ => None,
    }
}

fn line(before: &str, shown: &str, attributes: &[syn::Attribute]) -> String {
    let doc = first_sentence(attributes);
    if doc.is_empty() { format!("{before}`{shown}`\n") } else { format!("{before}`{shown}`: {doc}\n") }
}

fn is_public(visibility: &syn::Visibility) -> bool {
    matches!(visibility, syn::Visibility::Public(_))
}

fn is_hidden(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("doc") && list.tokens.to_string() == "hidden"
    })
}

/// The text as it stands in the source, on one line; empty if nothing stands there.
fn source(part: &impl Spanned) -> String {
    let text = part.span().source_text().unwrap_or_default();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace("( ", "(")
        .replace(", )", ")")
        .replace("< ", "<")
        .replace(", >", ">")
        .replace(", where", " where")
}

/// The first sentence of the documentation.
fn first_sentence(attributes: &[syn::Attribute]) -> String {
    let mut text = String::new();
    for attribute in attributes {
        let syn::Meta::NameValue(pair) = &attribute.meta else { continue };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(said), .. }) = &pair.value else { continue };
        if !pair.path.is_ident("doc") {
            continue;
        }
        let said = said.value();
        if said.trim().is_empty() {
            break;
        }
        text += &format!("{} ", said.trim());
    }
    let text = text.trim();
    let end = text.find(". ").map_or(text.len(), |end| end + 1);
    without_links(&text[..end])
}

/// Replaces `[x](y)` and `[x]` by `x`, because links to items work only in the documentation of the crate.
fn without_links(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let Some(close) = rest[open..].find(']').map(|close| open + close) else { break };
        out += &rest[..open];
        out += &rest[open + 1..close];
        rest = &rest[close + 1..];
        if let Some(target) = rest.strip_prefix('(') {
            rest = target.find(')').map_or("", |end| &target[end + 1..]);
            // The target of a function may end with `()`.
            rest = rest.strip_prefix(')').unwrap_or(rest);
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(texts: &[(&str, &str)]) -> String {
        let files = texts.iter().map(|(name, text)| {
            let module = name.split("::").map(str::to_string).collect();
            (module, syn::parse_file(text).expect("it is Rust"))
        });
        let page = page(&files.collect());
        page.strip_prefix(HEAD).expect("it has a head").to_string()
    }

    #[test]
    fn the_page_is_what_the_sources_say() {
        run(&["--check".into()]).expect("docs/api.md is current");
    }

    #[test]
    fn public_items_are_listed_wherever_they_are_declared_and_others_are_not() {
        let page = page_of(&[
            (
                "weir",
                "mod a; pub mod b; pub use a::{A, f as g}; pub use other::Thing; #[doc(hidden)] pub use a::Hidden; \
                 pub use weir_io as io; pub use weir_io::deep::Two; pub use weir_io::deep::Made;",
            ),
            (
                "weir::a",
                "/// One [thing](crate::b). And more.\npub struct A<T> { /// A field.\npub size: Option<T>, own: u8 }\n\
                 impl<T> A<T> { /// Makes it.\npub fn new(\n  x: u8,\n) -> Self { A } fn own(&self) {} }\n\
                 pub struct Hidden;\n/// Says.\npub fn f() {}",
            ),
            (
                "weir::b",
                "/// Does.\npub trait Does: Send { /// Once.\nfn once(&self); type Of: Copy; const N: u8; }\nstruct Own;",
            ),
            ("weir_io", "mod deep; pub mod sink; pub use deep::Two; pub const MAX: u8 = 3;"),
            (
                "weir_io::deep",
                "pub enum Two { /// First.\nOne(u8), Other { name: u8 } }\nimpl Two { pub const ALL: u8 = 1; }",
            ),
            ("weir_io::sink", "pub struct Far;"),
            ("weir_other", "impl Two { pub fn not_of_this_crate() {} }"),
        ]);
        let two = "\
- `enum Two`
  - `One(u8)`: First.
  - `Other`
    - `name: u8`
  - `const ALL: u8`
";
        let expected = format!(
            "
## `weir`

- `struct A<T>`: One thing.
  - `size: Option<T>`: A field.
  - `fn new(x: u8) -> Self`: Makes it.
{two}- `fn f()`: Says.
- `Made`: re-export of `weir_io::deep::Made`
- `Thing`: re-export of `other::Thing`

## `weir::b`

- `trait Does: Send`: Does.
  - `fn once(&self)`: Once.
  - `type Of: Copy`
  - `const N: u8`

## `weir::io`

- `const MAX: u8 = 3`
{two}- modules: `sink`
"
        );
        assert_eq!(page, expected);
    }
}
