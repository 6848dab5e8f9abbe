//! One compiled function and the memory that it lies in.

use crate::CompileError;
use crate::lower::{Part, Source};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError};
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use weir_ir::graph::Graph;

/// Machine code of one function. Freed with it.
pub(crate) struct Code {
    /// Where it starts.
    pub address: *const u8,
    /// Its length.
    pub bytes: usize,
    module: ManuallyDrop<Mutex<JITModule>>,
}

// SAFETY: the code is never written to once it is made, and calling it is up to the caller; the module
// is behind a mutex and only touched when dropped.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: `module` is taken once, here.
        let module = unsafe { ManuallyDrop::take(&mut self.module) };
        let module = module.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: nobody runs the code, for that takes a reference to the program that owns it.
        unsafe { module.free_memory() };
    }
}

impl Code {
    /// Compiles `part`.
    ///
    /// # Errors
    /// What the code generator or the system has against it.
    pub fn compile(part: Part, source: Source<'_>, isa: OwnedTargetIsa) -> Result<Self, CompileError> {
        let mut module = module(isa, source.graph)?;
        let signature = part.signature(module.isa().default_call_conv());
        let id = module.declare_function(&part.name(), Linkage::Export, &signature).map_err(backend)?;
        let mut context = module.make_context();
        let config = module.isa().frontend_config();
        source.lower(part, &mut context.func, &mut FunctionBuilderContext::new(), config);
        module.define_function(id, &mut context).map_err(backend)?;
        let bytes = context.compiled_code().map_or(0, |code| code.code_buffer().len());
        module.finalize_definitions().map_err(backend)?;
        let address = module.get_finalized_function(id);
        Ok(Self { address, bytes, module: ManuallyDrop::new(Mutex::new(module)) })
    }
}

fn module(isa: OwnedTargetIsa, graph: &Graph) -> Result<JITModule, CompileError> {
    let mut builder = JITBuilder::with_isa(isa, cranelift_module::default_libcall_names());
    // Address space only: pages are taken as code fills them. An instruction is some tens of bytes.
    let things: usize = graph.blocks.iter().map(|block| 4 + block.insts.len() + block.params.len()).sum();
    let sets: usize = graph.sets.iter().map(Vec::len).sum();
    let reserve = (1 << 20) + 1024 * (things + sets);
    let memory = ArenaMemoryProvider::new_with_size(reserve)
        .map_err(|error| CompileError::NoExecutableMemory(error.to_string()))?;
    builder.memory_provider(Box::new(memory));
    Ok(JITModule::new(builder))
}

fn backend(error: ModuleError) -> CompileError {
    match error {
        ModuleError::Allocation { err } => CompileError::NoExecutableMemory(err.to_string()),
        other => CompileError::Backend(format!("{other:?}")),
    }
}
