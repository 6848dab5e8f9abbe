//! `cargo xtask api [--check]` writes the public API of the library `weir` to `docs/api.md`, one line per item.
//!
//! The page is generated from the sources: the items that `lib.rs` declares or re-exports as `pub`, module by module,
//! with the first sentence of their documentation. Re-exported items of other crates are listed by name only. `--check`
//! fails if the page differs from the generated one.

use std::collections::{BTreeMap, BTreeSet};
use syn::spanned::Spanned;

use crate::modules::{self, Module};
use crate::shell::{Result, read, root, write};

const SOURCES: &str = "crates/weir/src";
const PAGE: &str = "docs/api.md";

const HEAD: &str = "\
# The public API of `weir`

Made by `cargo xtask api`; `cargo xtask ci` fails when this page is not current. One line per item: what the crate
declares, then what it re-exports. Examples: `cargo doc -p weir --open`.
";

pub fn run(args: &[String]) -> Result {
    let page = page(&modules::parse(&root().join(SOURCES))?);
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

type Files = BTreeMap<Module, syn::File>;

/// The page of a crate.
fn page(files: &Files) -> String {
    let mut page = HEAD.to_string();
    let mut modules = vec![vec![]];
    while let Some(module) = modules.pop() {
        let listed = Listed::of(files, &module);
        let name = [vec!["weir".to_string()], module.clone()].concat().join("::");
        page += &format!("\n## `{name}`\n\n");
        listed.items.values().for_each(|lines| page += lines);
        for (name, path) in &listed.others {
            page += &format!("- `{name}`: re-export of `{path}`\n");
        }
        let below = listed.modules.into_iter().map(|name| [module.clone(), vec![name]].concat());
        modules.extend(below.collect::<BTreeSet<Module>>().into_iter().rev());
    }
    page
}

/// The public items of a module.
#[derive(Default)]
struct Listed {
    /// The lines of each item, by name.
    items: BTreeMap<String, String>,
    /// Items of other crates.
    others: BTreeMap<String, String>,
    modules: BTreeSet<String>,
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
                        listed.items.insert(declared.name.clone(), declared.lines(files, &declared.name));
                    }
                }
            }
        }
        listed
    }

    /// Follows a re-export to the declaration of the item.
    fn add(&mut self, files: &Files, module: &Module, path: &[String], name: &str, depth: usize) {
        let started = modules::start(module, path, |module| files.contains_key(module));
        let Some((mut at, mut rest)) = started.filter(|_| depth < 8) else {
            self.others.insert(name.to_string(), path.join("::"));
            return;
        };
        while let [below, tail @ ..] = rest {
            let below = [at.clone(), vec![below.clone()]].concat();
            if tail.is_empty() || !files.contains_key(&below) {
                break;
            }
            (at, rest) = (below, tail);
        }
        let Some(wanted) = rest.first() else { return };
        for item in files.get(&at).iter().flat_map(|file| &file.items) {
            if let syn::Item::Use(import) = item {
                let imported = modules::imported(&import.tree);
                if let Some((path, _)) = imported.iter().find(|(_, called)| called == wanted) {
                    return self.add(files, &at, path, name, depth + 1);
                }
            }
            if let Some(declared) = Declared::of(item).filter(|declared| declared.name == *wanted) {
                let lines = Declared { name: name.to_string(), ..declared }.lines(files, wanted);
                self.items.insert(name.to_string(), lines);
            }
        }
    }
}

/// The declaration of an item.
struct Declared<'a> {
    kind: &'static str,
    name: String,
    /// The signature of a function, shown instead of kind and name.
    signature: Option<String>,
    attributes: &'a [syn::Attribute],
    is_public: bool,
    functions: Vec<&'a syn::TraitItemFn>,
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
        let declared = if let syn::Item::Trait(it) = item { &it.items[..] } else { &[] };
        let functions = declared.iter().filter_map(|item| match item {
            syn::TraitItem::Fn(function) if !is_hidden(&function.attrs) => Some(function),
            _ => None,
        });
        Some(Self {
            kind,
            name: name.to_string(),
            signature: if let syn::Item::Fn(it) = item { Some(source(&it.sig)) } else { None },
            attributes,
            is_public: is_public(visibility) && !is_hidden(attributes),
            functions: functions.collect(),
        })
    }

    /// The lines of the item and of its functions. `declared` is the item's name in its declaration.
    fn lines(&self, files: &Files, declared: &str) -> String {
        let shown = self.signature.clone().unwrap_or_else(|| format!("{} {}", self.kind, self.name));
        let mut lines = line("- ", &shown, self.attributes);
        for function in &self.functions {
            lines += &line("  - ", &source(&function.sig), &function.attrs);
        }
        for block in files.values().flat_map(|file| &file.items).filter_map(inherent) {
            let syn::Type::Path(of) = &*block.self_ty else { continue };
            if of.path.segments.last().is_none_or(|last| last.ident != declared) {
                continue;
            }
            for item in &block.items {
                if let syn::ImplItem::Fn(function) = item
                    && is_public(&function.vis)
                    && !is_hidden(&function.attrs)
                {
                    lines += &line("  - ", &source(&function.sig), &function.attrs);
                }
            }
        }
        lines
    }
}

/// The item if it is an inherent `impl` block.
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

/// The source text of a signature, on one line.
fn source(signature: &syn::Signature) -> String {
    let text = signature.span().source_text().unwrap_or_else(|| signature.ident.to_string());
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
            let module = name.split("::").filter(|name| !name.is_empty()).map(str::to_string).collect();
            (module, syn::parse_file(text).expect("it is Rust"))
        });
        let page = page(&files.collect());
        page.strip_prefix(HEAD).expect("it has a head").to_string()
    }

    #[test]
    fn public_items_are_listed_wherever_they_are_declared_and_others_are_not() {
        let page = page_of(&[
            (
                "",
                "mod a; pub mod b; pub use a::{A, f as g}; pub use other::Thing; #[doc(hidden)] pub use a::Hidden;",
            ),
            (
                "a",
                "/// One [thing](crate::b). And more.\npub struct A;\nimpl A { /// Makes it.\npub fn new(\n  x: u8,\n) -> Self \
                 { A } fn own(&self) {} }\npub struct Hidden;\n/// Says.\npub fn f() {}",
            ),
            ("b", "/// Does.\npub trait Does { /// Once.\nfn once(&self); }\nstruct Own;"),
        ]);
        let expected = "
## `weir`

- `struct A`: One thing.
  - `fn new(x: u8) -> Self`: Makes it.
- `fn f()`: Says.
- `Thing`: re-export of `other::Thing`

## `weir::b`

- `trait Does`: Does.
  - `fn once(&self)`: Once.
";
        assert_eq!(page, expected);
    }
}
