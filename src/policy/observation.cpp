#include <algorithm>

#include "pith/policy.hpp"

namespace pith {

namespace {

/// The last `kept` of `count` equal parts.
std::vector<float> last_parts(const std::vector<float>& all, size_t count, size_t kept) {
  const size_t width = count == 0 ? 0 : all.size() / count;
  return {all.end() - ptrdiff_t(kept * width), all.end()};
}

}  // namespace

Observation Observation::tail(int count) const {
  const size_t m = positions.size();
  const size_t kept = std::min(m, size_t(std::max(count, 0)));
  Observation out;
  out.positions.assign(positions.end() - ptrdiff_t(kept), positions.end());
  for (const auto& layer : query) out.query.push_back(last_parts(layer, m, kept));
  out.residual = last_parts(residual, m, kept);
  out.logits = last_parts(logits, m, kept);
  return out;
}

}  // namespace pith
