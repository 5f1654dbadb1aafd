#pragma once

#include <span>

namespace pith {

enum class Pooling { avg, max };

/// `in` pooled over `kernel` (odd) neighbours into `out` of the same length; outside of it are
/// zeros, which count in an average where `zeros_count` and otherwise do not.
void pool(std::span<const float> in, int kernel, Pooling pooling, bool zeros_count,
          std::span<float> out);

}  // namespace pith
