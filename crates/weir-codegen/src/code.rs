//! A program's machine code: one module, to which functions are added when packets first need them.

use crate::CompileError;
use crate::lower::{Part, Source};
use cranelift_codegen::Context;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError};
use std::mem::ManuallyDrop;
use std::sync::{Mutex, MutexGuard};
use weir_ir::graph::Graph;

/// One function's code. It lies in the [`Memory`] that it was compiled into, and is gone with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code {
    /// Where it starts.
    pub address: *const u8,
    /// Its length.
    pub bytes: usize,
}

// SAFETY: the code is never written to once it is made; calling it is up to the caller.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

/// The memory of a program's functions. Freed with it: what owns it owns all [`Code`] in it.
pub(crate) struct Memory(ManuallyDrop<Mutex<Compiler>>);

struct Compiler {
    module: JITModule,
    context: Context,
    scratch: FunctionBuilderContext,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: taken once, here.
        let compiler = unsafe { ManuallyDrop::take(&mut self.0) };
        let compiler = compiler.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: nobody runs the code, for that takes a reference to the program that owns this.
        unsafe { compiler.module.free_memory() };
    }
}

impl Memory {
    /// Reserves address space for `parts` functions of `graph`; pages are taken as code fills them.
    ///
    /// # Errors
    /// What the system has against it.
    pub fn reserve(graph: &Graph, parts: usize, isa: OwnedTargetIsa) -> Result<Self, CompileError> {
        let mut builder = JITBuilder::with_isa(isa, cranelift_module::default_libcall_names());
        // An instruction is some tens of bytes.
        let things: usize = graph.blocks.iter().map(|block| 4 + block.insts.len() + block.params.len()).sum();
        let sets: usize = graph.sets.iter().map(Vec::len).sum();
        let reserve = (1 << 20) + 512 * (things + sets) * parts;
        let memory = ArenaMemoryProvider::new_with_size(reserve)
            .map_err(|error| CompileError::NoExecutableMemory(error.to_string()))?;
        builder.memory_provider(Box::new(memory));
        let module = JITModule::new(builder);
        let (context, scratch) = (module.make_context(), FunctionBuilderContext::new());
        Ok(Self(ManuallyDrop::new(Mutex::new(Compiler { module, context, scratch }))))
    }

    /// Compiles `part`, once.
    ///
    /// # Errors
    /// What the code generator or the system has against it.
    pub fn compile(&self, part: Part, source: Source<'_>) -> Result<Code, CompileError> {
        let Compiler { module, context, scratch } = &mut *self.lock();
        let config = module.isa().frontend_config();
        let signature = part.signature(module.isa().default_call_conv());
        let id = module.declare_function(&part.name(), Linkage::Export, &signature).map_err(backend)?;
        module.clear_context(context);
        source.lower(part, &mut context.func, scratch, config);
        module.define_function(id, context).map_err(backend)?;
        let bytes = context.compiled_code().map_or(0, |code| code.code_buffer().len());
        module.finalize_definitions().map_err(backend)?;
        Ok(Code { address: module.get_finalized_function(id), bytes })
    }

    fn lock(&self) -> MutexGuard<'_, Compiler> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn backend(error: ModuleError) -> CompileError {
    match error {
        ModuleError::Allocation { err } => CompileError::NoExecutableMemory(err.to_string()),
        other => CompileError::Backend(format!("{other:?}")),
    }
}
