//! A program's machine code: one module, to which functions are added when packets first need them.

use crate::CompileError;
use crate::lower::{Part, Source};
use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_frontend::FunctionBuilderContext;
use cranelift_jit::{ArenaMemoryProvider, JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, ModuleError, ModuleReloc};
use std::mem::ManuallyDrop;
use std::sync::Mutex;
use weir_ir::graph::Graph;

/// The code of one function. It is in the [`Memory`] into which it was compiled, and valid as long as that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code {
    /// Address of the first byte.
    pub address: *const u8,
    /// Size of the code in bytes.
    pub bytes: usize,
}

// SAFETY: the code is never written to after it is compiled; calls are the caller's responsibility.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

/// The memory of a program's functions. It is freed when dropped, so its owner also owns all [`Code`] in it.
pub(crate) struct Memory {
    module: ManuallyDrop<Mutex<JITModule>>,
    isa: OwnedTargetIsa,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: taken only here, once.
        let module = unsafe { ManuallyDrop::take(&mut self.module) };
        let module = module.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        // SAFETY: no thread runs the code, because that takes a reference to the program that owns this
        // memory.
        unsafe { module.free_memory() };
    }
}

impl Memory {
    /// Reserves address space for `parts` functions of `graph`; pages are allocated as code fills them.
    ///
    /// # Errors
    /// If the system refuses the memory.
    pub fn reserve(graph: &Graph, parts: usize, isa: OwnedTargetIsa) -> Result<Self, CompileError> {
        let mut builder = JITBuilder::with_isa(isa.clone(), cranelift_module::default_libcall_names());
        // An instruction takes some tens of bytes.
        let things: usize = graph.blocks.iter().map(|block| 4 + block.insts.len() + block.params.len()).sum();
        let sets: usize = graph.sets.iter().map(Vec::len).sum();
        let reserve = (1 << 20) + 512 * (things + sets) * parts;
        let memory = ArenaMemoryProvider::new_with_size(reserve)
            .map_err(|error| CompileError::NoExecutableMemory(error.to_string()))?;
        builder.memory_provider(Box::new(memory));
        Ok(Self { module: ManuallyDrop::new(Mutex::new(JITModule::new(builder))), isa })
    }

    /// Compiles `part` once. Several threads may compile different parts at the same time.
    ///
    /// # Errors
    /// If the code generator or the system fails.
    pub fn compile(&self, part: Part, source: Source<'_>) -> Result<Code, CompileError> {
        let mut context = Context::new();
        let mut scratch = FunctionBuilderContext::new();
        source.lower(part, &mut context.func, &mut scratch, self.isa.frontend_config());
        context
            .compile(&*self.isa, &mut ControlPlane::default())
            .map_err(|error| CompileError::Backend(error.inner.to_string()))?;
        let Some(code) = context.compiled_code() else {
            return Err(CompileError::Backend(format!("no code for the {}", part.name())));
        };
        let mut module = self.module.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let signature = part.signature(self.isa.default_call_conv());
        let id = module.declare_function(&part.name(), Linkage::Export, &signature).map_err(backend)?;
        let relocs =
            code.buffer.relocs().iter().map(|reloc| ModuleReloc::from_mach_reloc(reloc, &context.func, id));
        let (relocs, bytes): (Vec<_>, _) = (relocs.collect(), code.code_buffer());
        let alignment = u64::from(code.buffer.alignment);
        module.define_function_bytes(id, alignment, bytes, &relocs).map_err(backend)?;
        module.finalize_definitions().map_err(backend)?;
        Ok(Code { address: module.get_finalized_function(id), bytes: bytes.len() })
    }
}

fn backend(error: ModuleError) -> CompileError {
    match error {
        ModuleError::Allocation { err } => CompileError::NoExecutableMemory(err.to_string()),
        other => CompileError::Backend(format!("{other:?}")),
    }
}
