//! Parses the source files of a crate, and resolves paths between its modules.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::shell::{Result, read, said};

/// A module as a list of names, from the root of the crate. The root is the empty list.
pub type Module = Vec<String>;

/// A parsed source file.
pub struct Source {
    pub path: PathBuf,
    pub file: syn::File,
}

/// Parses all sources below a folder.
///
/// # Errors
/// If a file cannot be read or is not Rust.
pub fn parse(folder: &Path) -> Result<BTreeMap<Module, Source>> {
    let mut files = BTreeMap::new();
    parse_below(folder, &mut vec![], &mut files)?;
    Ok(files)
}

fn parse_below(folder: &Path, above: &mut Module, files: &mut BTreeMap<Module, Source>) -> Result {
    for entry in std::fs::read_dir(folder).map_err(said(folder.display()))? {
        let path = entry.map_err(said(folder.display()))?.path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()).map(str::to_string) else {
            continue;
        };
        if path.is_dir() {
            above.push(name);
            parse_below(&path, above, files)?;
            above.pop();
        } else if path.extension().is_some_and(|end| end == "rs") {
            let mut module = above.clone();
            // A program beside a library is a crate of its own.
            let is_beside = name == "main" && path.with_file_name("lib.rs").is_file();
            if is_beside || !["mod", "lib", "main"].contains(&name.as_str()) {
                module.push(name);
            }
            let file = syn::parse_file(&read(&path)?).map_err(said(path.display()))?;
            files.insert(module, Source { path, file });
        }
    }
    Ok(())
}

/// The paths of a `use`, each with the imported name; `*` for all names.
pub fn imported(tree: &syn::UseTree) -> Vec<(Module, String)> {
    match tree {
        syn::UseTree::Path(path) => {
            let mut all = imported(&path.tree);
            all.iter_mut().for_each(|(names, _)| names.insert(0, path.ident.to_string()));
            all
        }
        syn::UseTree::Group(group) => group.items.iter().flat_map(imported).collect(),
        syn::UseTree::Name(name) if name.ident == "self" => vec![(vec![], "self".into())],
        syn::UseTree::Name(name) => vec![(vec![name.ident.to_string()], name.ident.to_string())],
        syn::UseTree::Rename(renamed) => vec![(vec![renamed.ident.to_string()], renamed.rename.to_string())],
        syn::UseTree::Glob(_) => vec![(vec![], "*".into())],
    }
}

/// The module at which a path begins, and the rest of the path. `None` for other crates.
pub fn start<'p>(
    module: &Module,
    path: &'p [String],
    is_module: impl Fn(&Module) -> bool,
) -> Option<(Module, &'p [String])> {
    Some(match path.first()?.as_str() {
        "crate" => (vec![], &path[1..]),
        "self" => (module.clone(), &path[1..]),
        "super" => {
            let ups = path.iter().take_while(|name| *name == "super").count();
            (module[..module.len().saturating_sub(ups)].to_vec(), &path[ups..])
        }
        child => {
            let child = [module.clone(), vec![child.to_string()]].concat();
            is_module(&child).then(|| (module.clone(), path))?
        }
    })
}
