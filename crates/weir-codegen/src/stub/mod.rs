#![allow(missing_docs, dead_code)]
pub mod liveness;
pub mod verify {
    pub fn verify(_: &weir_ir::graph::Graph) -> Result<(), String> {
        Ok(())
    }
}
pub mod patterns {
    use weir_ir::graph::{Graph, Pattern, PatternDecl};
    pub struct Patterns(Vec<PatternDecl>);
    impl Patterns {
        pub fn compile(g: &Graph) -> Result<Self, String> {
            Ok(Self(g.patterns.clone()))
        }
        pub fn search(&self, p: Pattern, b: &[u8]) -> bool {
            match &self.0[p.index()] {
                PatternDecl::Contains(n) => n.is_empty() || b.windows(n.len()).any(|w| w == n),
                PatternDecl::Equals(n) => b == n,
                PatternDecl::Less(n) => b < &n[..],
                PatternDecl::Matches(_) => false,
            }
        }
    }
}
