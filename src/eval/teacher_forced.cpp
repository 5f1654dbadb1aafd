#include "eval/teacher_forced.h"

#include <algorithm>

#include "base/argmax.h"
#include "base/parallel.h"
#include "eval/metrics.h"

namespace pith {
namespace {

/// Tokens evaluated at once: bounds the logits held beside those that count.
constexpr size_t kChunk = 128;

}  // namespace

std::vector<size_t> scored_positions(const FidelityRow& row) {
  std::vector<size_t> positions;
  for (size_t j = 0; j < row.score.size(); ++j) {
    if (row.score[j] == 1) positions.push_back(j);
  }
  return positions;
}

std::vector<float> scored_logits(Session& session, const FidelityRow& row) {
  const auto n_vocab = size_t(session.model().shape().n_vocab);
  const std::span<const int32_t> tokens = row.continuation;
  std::vector<float> kept;
  for (size_t first = 0; first < tokens.size(); first += kChunk) {
    const size_t count = std::min(kChunk, tokens.size() - first);
    const std::vector<float> logits = session.evaluate(tokens.subspan(first, count));
    for (size_t j = 0; j < count; ++j) {
      if (row.score[first + j] == 0) continue;
      const auto begin = logits.begin() + int64_t(j * n_vocab);
      kept.insert(kept.end(), begin, begin + int64_t(n_vocab));
    }
  }
  return kept;
}

std::vector<int32_t> greedy_tokens(Session session, int32_t first, int count, bool stop) {
  std::vector<int32_t> tokens{first};
  while (int(tokens.size()) < count && !(stop && session.model().is_end(tokens.back()))) {
    tokens.push_back(argmax(session.decode(tokens.back())));
  }
  return tokens;
}

std::vector<double> kl_by_position(std::span<const float> full, std::span<const float> other,
                                   int n_vocab, int threads) {
  const auto width = size_t(n_vocab);
  std::vector<double> kl(full.size() / width);
  parallel_for(int(kl.size()), threads, [&](int i) {
    const size_t at = size_t(i) * width;
    kl[size_t(i)] =
        compare_logits(full.subspan(at, width), other.subspan(at, width), std::nullopt).kl;
  });
  return kl;
}

}  // namespace pith
