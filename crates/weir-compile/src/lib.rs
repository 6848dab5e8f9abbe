//! A question (stack, filters, wanted types) lowered to one graph.
