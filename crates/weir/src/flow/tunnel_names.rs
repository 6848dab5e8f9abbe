//! The names of tunnels.

use std::sync::Arc;
use weir_compile::tunnels::tunnel_layers;
use weir_engine::tunnels::Tunnel;
use weir_lang::model::Stack;

/// Layers, and Zeek's names of the services of connections that are such tunnels, where they differ.
const SERVICES: &[(&str, &str)] = &[("gtp", "gtpv1")];

/// Layers, and Zeek's names of the tunnels, where these are not the services in upper case.
const TYPES: &[(&str, &str)] = &[("gtp", "GTPv1")];

/// The names of tunnels by layer.
#[derive(Debug, Clone)]
pub(crate) struct TunnelNames(Arc<[String]>);

impl TunnelNames {
    /// The names of all layers of a stack.
    pub fn of(stack: &Stack) -> Self {
        Self(stack.layers.iter().map(|layer| layer.protocol.name.clone()).collect())
    }

    fn layer(&self, tunnel: &Tunnel) -> &str {
        self.0.get(tunnel.layer).map_or("", String::as_str)
    }

    /// The value of `service` of a connection that is such a tunnel.
    pub fn service(&self, tunnel: &Tunnel) -> &str {
        service_of(self.layer(tunnel))
    }

    /// Zeek's name of such a tunnel: `Tunnel::VXLAN`.
    pub fn kind(&self, tunnel: &Tunnel) -> String {
        let layer = self.layer(tunnel);
        let known = TYPES.iter().find(|(of, _)| *of == layer).map(|(_, name)| (*name).to_string());
        format!("Tunnel::{}", known.unwrap_or_else(|| layer.to_uppercase()))
    }
}

/// The services that connections have because they are tunnels.
pub(crate) fn services(stack: &Stack) -> Vec<String> {
    let name = |at: u16| &stack.layers[usize::from(at)].protocol.name;
    tunnel_layers(stack).iter().map(|id| service_of(name(id.0)).to_string()).collect()
}

fn service_of(layer: &str) -> &str {
    SERVICES.iter().find(|(of, _)| *of == layer).map_or(layer, |(_, service)| service)
}
