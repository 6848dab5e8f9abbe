//! What a question is, and how questions become a program: [`Compiler`](compile::Compiler) checks their
//! filters, warns of those that never match (`contradiction`, `vocabulary`), lowers one graph and generates
//! code. [`Options`](compile::Options) are the settings of a run; `ordering` and `processors` are two of
//! them.

pub(crate) mod compile;
pub(crate) mod contradiction;
pub(crate) mod decode_as;
pub(crate) mod deferred_predicate;
pub(crate) mod group_key;
pub(crate) mod kernel_filters;
pub(crate) mod key_ends;
pub(crate) mod names;
pub(crate) mod ordering;
pub(crate) mod packet_key;
pub(crate) mod packet_key_plan;
pub(crate) mod processors;
pub(crate) mod program;
pub(crate) mod question;
pub(crate) mod row_filter;
pub(crate) mod vocabulary;
