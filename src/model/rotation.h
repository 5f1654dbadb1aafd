#pragma once

#include <span>

#include "model/weights.h"

namespace pith {

/// The angles of ggml_rope_ext for a RopeConfig: all of its scalings (linear, YaRN, one factor a
/// pair) are linear in the position, so a frequency a pair says everything. `factors` [pairs] are
/// those of rope_freqs.weight, or empty.
Rotation rotation_of(const RopeConfig& rope, std::span<const float> factors);

}  // namespace pith
