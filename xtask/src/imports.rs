//! The imports between the files of a crate, and the cycles in them.
//!
//! Files are modules. A path (in a `use`, an expression or a type) that begins with `crate`, `self`, `super`
//! or the name of a child module leads from one module to another. If the path names an item that the other
//! module merely imports, the path leads to the module that declares the item. A folder's `mod.rs` is a
//! module like those inside the folder: a path from one to the other is an import. A declaration
//! (`mod x;`) is none. Code under `#[cfg(test)]` does not count, and neither do paths inside macro calls.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use syn::visit::{self, Visit};

use crate::modules::{self, Module};
use crate::shell::Result;

/// Uses between the modules of one crate.
pub struct Imports {
    uses: BTreeMap<Module, BTreeSet<Module>>,
}

impl Imports {
    /// Reads the sources of a crate.
    ///
    /// # Errors
    /// If a file cannot be read or is not Rust.
    pub fn of(folder: &Path) -> Result<Self> {
        let files = modules::parse(folder)?;
        Ok(Self::between(
            &files.iter().map(|(module, source)| (module.clone(), File::of(module, &source.file))).collect(),
        ))
    }

    fn between(files: &BTreeMap<Module, File>) -> Self {
        let tests: BTreeSet<Module> = files.values().flat_map(|file| file.tests.iter().cloned()).collect();
        let is_test = |module: &Module| tests.iter().any(|test| module.starts_with(test));
        let mut uses = BTreeMap::new();
        for (module, file) in files.iter().filter(|(module, _)| !is_test(module)) {
            let paths = file.paths.iter().chain(file.imports.values());
            let used = paths.filter_map(|path| target(files, module, path, 0));
            let is_other = |other: &Module| other != module;
            uses.insert(module.clone(), used.filter(is_other).collect::<BTreeSet<Module>>());
        }
        Self { uses }
    }

    /// The uses between the rooms of the crate: its folders, and the files beside them.
    pub fn between_rooms(&self) -> Self {
        let mut uses: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (module, used) in self.uses.iter().filter(|(module, _)| !module.is_empty()) {
            let room = module[..1].to_vec();
            let others = used.iter().filter(|other| !other.is_empty()).map(|other| other[..1].to_vec());
            uses.entry(room.clone()).or_default().extend(others.filter(|other| *other != room));
        }
        Self { uses }
    }

    /// The number of files that are part of a cycle.
    pub fn cyclic(&self) -> usize {
        self.uses.keys().filter(|module| self.cycle_through(module).is_some()).count()
    }

    /// A shortest cycle through each group of files that use each other, as `a → b → a`.
    pub fn cycles(&self) -> Vec<String> {
        let mut shown: BTreeSet<&Module> = BTreeSet::new();
        let mut cycles = vec![];
        for module in self.uses.keys() {
            let Some(cycle) = self.cycle_through(module).filter(|_| !shown.contains(module)) else {
                continue;
            };
            cycles.push(cycle.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(" → "));
            shown.extend(cycle);
        }
        cycles
    }

    /// A shortest path from a module back to itself.
    fn cycle_through<'a>(&'a self, module: &'a Module) -> Option<Vec<&'a Module>> {
        let mut came_from: BTreeMap<&Module, &Module> = BTreeMap::new();
        let mut queue = VecDeque::from([module]);
        while let Some(at) = queue.pop_front() {
            for next in self.uses.get(at).into_iter().flatten() {
                if next == module {
                    let mut back = vec![module, at];
                    while let Some(before) = back.last().and_then(|last| came_from.get(last)) {
                        back.push(before);
                    }
                    back.reverse();
                    return Some(back);
                }
                if !came_from.contains_key(next) {
                    came_from.insert(next, at);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// The references of a file to other modules.
#[derive(Default)]
struct File {
    /// The names of the inline modules that enclose the visited item.
    inside: Module,
    module: Module,
    paths: Vec<Module>,
    /// Names that the module imports, and their paths. Other modules may use these names: all of them if the
    /// import is public, those inside the module if not.
    imports: BTreeMap<String, Module>,
    /// Modules that are compiled for tests only.
    tests: Vec<Module>,
}

/// The module that declares the target of a path. `None` if the target is in another crate or in the module
/// itself.
fn target(files: &BTreeMap<Module, File>, module: &Module, path: &[String], depth: usize) -> Option<Module> {
    let (mut at, mut rest) = modules::start(module, path, |module| files.contains_key(module))?;
    while let Some(name) = rest.first() {
        let below = [at.clone(), vec![name.clone()]].concat();
        if files.contains_key(&below) {
            (at, rest) = (below, &rest[1..]);
            continue;
        }
        // Limits chains of imports, which are cyclic only in invalid code.
        if let Some(path) = files.get(&at)?.imports.get(name).filter(|_| depth < 8) {
            return target(files, &at, path, depth + 1);
        }
        break;
    }
    files.contains_key(&at).then_some(at)
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let syn::Meta::List(list) = &attribute.meta else { return false };
        list.path.is_ident("cfg") && list.tokens.to_string() == "test"
    })
}

impl File {
    fn of(module: &Module, parsed: &syn::File) -> Self {
        let mut file = Self { module: module.clone(), ..Self::default() };
        file.visit_file(parsed);
        file
    }

    /// A path, as seen from the file and not from a module inside the file.
    fn note(&mut self, mut path: Module) -> Option<Module> {
        let ups = path.iter().take_while(|name| *name == "super").count().min(self.inside.len());
        path.drain(..ups);
        (ups == 0 || !path.is_empty()).then_some(path)
    }
}

impl<'ast> Visit<'ast> for File {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(module) => &module.attrs,
            syn::Item::Fn(function) => &function.attrs,
            syn::Item::Impl(block) => &block.attrs,
            syn::Item::Use(import) => &import.attrs,
            syn::Item::ExternCrate(krate) => &krate.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            return visit::visit_item(self, item);
        }
        if let syn::Item::Mod(module) = item {
            self.tests.push([self.module.clone(), vec![module.ident.to_string()]].concat());
        }
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.inside.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.inside.pop();
    }

    fn visit_item_use(&mut self, import: &'ast syn::ItemUse) {
        for (path, name) in modules::imported(&import.tree) {
            let Some(path) = self.note(path) else { continue };
            // Two functions may import different items under one name. The first item keeps the name; the
            // import of the other item still counts as a use.
            if name != "*" && !self.imports.contains_key(&name) {
                self.imports.insert(name, path);
            } else {
                self.paths.push(path);
            }
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(super)` uses nothing.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let names = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let path = self.note(names);
            self.paths.extend(path);
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(texts: &[(&str, &str)]) -> Imports {
        let mut files = BTreeMap::new();
        for (name, text) in texts {
            let module: Module =
                name.split("::").filter(|name| !name.is_empty()).map(str::to_string).collect();
            let file = File::of(&module, &syn::parse_file(text).expect("it is Rust"));
            files.insert(module, file);
        }
        Imports::between(&files)
    }

    #[test]
    fn a_cycle_is_found_through_imports_paths_and_names_that_are_exported_again() {
        let found = imports(&[
            ("", "mod a; mod b; mod c; pub use c::Thing;"),
            ("a", "use crate::b::{self, Other};"),
            ("b", "fn f() -> crate::Thing { todo!() }"),
            ("c", "pub struct Thing; fn g() { super::a::h() }"),
        ]);
        assert_eq!(found.cycles(), ["a → b → c → a"]);
        assert_eq!(found.cyclic(), 3);
    }

    #[test]
    fn rooms_have_cycles_that_files_do_not_have() {
        let found = imports(&[
            ("", "mod a; mod b;"),
            ("a", "mod x; mod z;"),
            ("b", "mod w; mod y;"),
            ("a::x", "use crate::b::y::Y;"),
            ("a::z", "pub struct Z;"),
            ("b::y", "pub struct Y;"),
            ("b::w", "use crate::a::z::Z;"),
        ]);
        assert_eq!((found.cyclic(), found.between_rooms().cyclic()), (0, 2));
        assert_eq!(found.between_rooms().cycles(), ["a → b → a"]);
    }

    #[test]
    fn tests_and_other_crates_make_no_cycle_but_a_folder_with_its_files_does() {
        let found = imports(&[
            ("", "mod a; mod b;"),
            ("a", "mod part; use part::Part; pub struct A; #[cfg(test)] mod tests { use crate::b::B; }"),
            ("a::part", "use super::A; pub(super) struct Part; #[cfg(test)] use crate::b::B;"),
            ("b", "use crate::a::A; use std::fmt; pub struct B;"),
        ]);
        assert_eq!(found.cycles(), ["a → a::part → a"]);
    }

    #[test]
    fn what_a_folder_imports_for_its_files_is_no_use_of_the_folder() {
        let found = imports(&[
            ("", "mod a; mod b;"),
            ("a", "mod one; mod two; use one::One; use crate::b::B; fn f(_: One) {}"),
            ("a::one", "use super::B; pub(super) struct One(B);"),
            ("a::two", "fn g(_: super::One) {}"),
            ("b", "pub struct B;"),
        ]);
        assert_eq!(found.cycles(), [""; 0]);
    }
}
