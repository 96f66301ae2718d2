#pragma once

#include <cstdint>

// Which module's forward made the autograd node that runs. A node has a number that its thread counts up, and a thread
// that asks for memory in a forward pass is at some number: so ranges of numbers belong to modules, and nothing has to
// run when a node is made.

namespace drydock::trace {

/// Bytes from a node's beginning to its number and to the number of the thread that made it, and whether nodes count
/// their owners themselves. Python compares them with what torch says of living nodes. Until then nothing is known of
/// nodes.
void node_layout_found(uint32_t sequence_offset, uint32_t thread_offset, bool counts_itself) noexcept;

/// The calling thread asks for memory in the forward of `module` (0: of none).
void module_made_nodes(uint64_t module) noexcept;

/// False if the calling thread runs no node. Else `module` is the address of the one whose forward made it, 0 where
/// that cannot be told.
bool module_of_running_node(uint64_t& module) noexcept;

}  // namespace drydock::trace
