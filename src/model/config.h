#pragma once

#include <gguf.h>

#include "model/weights.h"

namespace pith {

/// Hyper-parameters of a GGUF header, each within a sane range, so that no product of sizes
/// overflows. Throws Error(bad_file) for a missing or senseless value and Error(unsupported) for an
/// architecture, a RoPE scaling, experts or per-layer sizes that pith does not run.
ModelConfig read_config(const gguf_context* header);

}  // namespace pith
