-- Finds the flow of each packet, both directions as one, and does nothing else: what the tables and the calls cost.
local module = { key = "flow" }

function module.handlePacket(flowKey, state, packet, isFirstPacket)
end

return module
