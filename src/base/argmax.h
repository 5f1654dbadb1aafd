#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

namespace pith {

/// The likeliest token. Ties go to the lower token id.
inline int32_t argmax(std::span<const float> logits) {
  return int32_t(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace pith
