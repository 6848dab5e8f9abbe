//! Makes an executable program of a graph: native code, or the interpreter.

use std::sync::Arc;
use weir_codegen::Effort;
use weir_ir::abi::Program;
use weir_ir::graph::Graph;
use weir_ir::interpret::Interpreter;

/// The executor of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Executor {
    /// Native code; of a capture file, the first packets are interpreted. The interpreter alone if executable
    /// memory is not available.
    #[default]
    Auto,
    /// Native code from the first packet on.
    Native,
    /// The interpreter.
    Interpreter,
}

type Made = (Arc<dyn Program>, Option<Arc<weir_codegen::NativeProgram>>, Result<(), String>);

pub(crate) fn make_program(
    graph: Graph,
    fast_path: Option<Graph>,
    engine: Executor,
    effort: Effort,
) -> Result<Made, String> {
    let interpret = |graph: Graph| Interpreter::new(graph).map_err(|e| e.to_string());
    if engine == Executor::Interpreter {
        return Ok((Arc::new(interpret(graph)?), None, Err("asked for".into())));
    }
    match weir_codegen::compile_with_fast_path(graph.clone(), fast_path, effort) {
        Ok(native) => {
            let native = Arc::new(native);
            Ok((Arc::clone(&native) as Arc<dyn Program>, Some(native), Ok(())))
        }
        Err(error) if engine == Executor::Auto && error.is_environment() => {
            Ok((Arc::new(interpret(graph)?), None, Err(error.to_string())))
        }
        Err(error) => Err(error.to_string()),
    }
}
