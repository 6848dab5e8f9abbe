//! The control-flow graph: instructions, text form, verifier, interpreter, passes.
