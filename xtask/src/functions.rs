//! Habits of functions that reviews found again and again: questions that change what they ask, long lists of
//! parameters, and meaning that is read from the text of a filter. Code for tests does not count.

use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use crate::modules::{self, Source};
use crate::shell::{Result, root};

/// Parameters of a function, `self` included, beyond which it is listed.
const PARAMETERS_MAX: usize = 8;
/// Folders whose functions build a graph: there `is_known(&mut self, …)` adds the test to the graph.
const BUILDERS: [&str; 3] =
    ["crates/weir-compile/src/lower", "crates/weir-codegen/src/lower", "crates/weir-ir/src/passes"];

/// The places of a crate, each with the file, the line and the name.
#[derive(Default)]
pub struct Places {
    /// Functions `is_…` and `has_…` that take `&mut self`, outside builders.
    pub effectful_queries: Vec<String>,
    /// Functions with more than [`PARAMETERS_MAX`] parameters.
    pub long_parameter_lists: Vec<String>,
    /// Calls of `.filter.contains(…)`: a filter's tree says what the filter uses, its text does not.
    pub filter_texts: Vec<String>,
}

impl Places {
    /// Reads the sources of a crate.
    ///
    /// # Errors
    /// If a file cannot be read or is not Rust.
    pub fn of(folder: &Path) -> Result<Self> {
        let mut places = Self::default();
        for (module, Source { path, file }) in modules::parse(folder)? {
            if module.iter().any(|name| name == "tests") {
                continue;
            }
            let path = path.strip_prefix(root()).unwrap_or(&path);
            let is_builder = BUILDERS.iter().any(|folder| path.starts_with(folder));
            let name = path.display().to_string();
            Reader { name, is_builder, places: &mut places }.visit_file(&file);
        }
        Ok(places)
    }
}

struct Reader<'a> {
    /// The name of the file.
    name: String,
    is_builder: bool,
    places: &'a mut Places,
}

impl Reader<'_> {
    fn place(&self, what: &impl Spanned, name: &str) -> String {
        format!("{}:{}: {name}", self.name, what.span().start().line)
    }

    fn signature(&mut self, signature: &syn::Signature) {
        let name = signature.ident.to_string();
        let place = self.place(&signature.ident, &name);
        if signature.inputs.len() > PARAMETERS_MAX {
            self.places.long_parameter_lists.push(place.clone());
        }
        let changes =
            signature.receiver().is_some_and(|own| own.reference.is_some() && own.mutability.is_some());
        if changes && !self.is_builder && (name.starts_with("is_") || name.starts_with("has_")) {
            self.places.effectful_queries.push(place);
        }
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || matches!(&attribute.meta, syn::Meta::List(list)
                if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
    })
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        if is_for_tests(&block.attrs) {
            return;
        }
        let syn::Type::Path(own) = &*block.self_ty else { return visit::visit_item_impl(self, block) };
        let is_named_builder =
            own.path.segments.last().is_some_and(|name| name.ident.to_string().ends_with("Builder"));
        let before = self.is_builder;
        self.is_builder |= is_named_builder;
        visit::visit_item_impl(self, block);
        self.is_builder = before;
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            self.signature(&function.sig);
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            self.signature(&function.sig);
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.signature(&function.sig);
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let is_filter = matches!(&*call.receiver, syn::Expr::Field(field)
            if matches!(&field.member, syn::Member::Named(name) if name == "filter"));
        if is_filter && call.method == "contains" {
            let place = self.place(&call.method, ".filter.contains(…)");
            self.places.filter_texts.push(place);
        }
        visit::visit_expr_method_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn habits_are_found_outside_builders_and_tests() {
        let text = "
            impl A {
                fn is_a(&mut self) -> bool { self.spec.filter.contains(\"x\") }
                fn is_b(&self) -> bool { true }
                fn has_c(mut self) -> bool { true }
                fn d(&self, a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8) {}
            }
            impl GraphBuilder { fn is_e(&mut self) {} }
            #[cfg(test)]
            mod tests { fn is_f(&mut self) {} }
        ";
        let mut places = Places::default();
        let parsed = syn::parse_file(text).expect("it is Rust");
        Reader { name: "m".into(), is_builder: false, places: &mut places }.visit_file(&parsed);
        assert_eq!(places.effectful_queries, ["m:3: is_a"]);
        assert_eq!(places.filter_texts, ["m:3: .filter.contains(…)"]);
        assert_eq!(places.long_parameter_lists, ["m:6: d"]);
    }
}
