#pragma once

#include <cstdint>
#include <span>

namespace pith::testing {

/// Reads `bytes` as a geometry and a list of operations (append, append given up, apply, malformed
/// apply, fork, move, trim, append beyond the context), carries each out on a KvCache and on the
/// reference, and compares all that can be seen of them after each. Any bytes are valid; they end
/// the run. Throws std::runtime_error saying what differs. Shared by the test and the fuzz target.
void drive_cache(std::span<const uint8_t> bytes);

}  // namespace pith::testing
