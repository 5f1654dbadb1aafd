#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "pith/pith.hpp"

namespace pith {

/// Calibration::sensitivity, measured by running `last` over what `session` has read, once as it is
/// and then, layer by layer, with noise added to the output of one query head at each position: the
/// heads of the layer take turns, and every head is changed at `samples` positions or more. The KL
/// at a position goes to the head that was changed there. The noise is half of the root mean
/// square of the head's cached values, in random signs: as large as what evictions do. Quantised
/// activations make any change move the logits; the KL of a hundredth of the noise is taken for
/// that and subtracted. The session's cache is as before.
std::vector<float> head_sensitivity(Session& session, std::span<const int32_t> last, int samples,
                                    const Progress& progress);

}  // namespace pith
