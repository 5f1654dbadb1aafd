#include "calibration/sensitivity.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "base/parallel.h"
#include "eval/metrics.h"
#include "session/session.h"

namespace pith {

namespace {

/// Size of the noise relative to that of the values.
constexpr double kRelativeNoise = 0.5;
/// Part of the noise that only makes products of quantised activations round differently.
constexpr double kRoundingNoise = 0.01;
/// A head's sensitivity is at least this part of its layer's mean: of few samples, less is chance.
constexpr double kLeastOfMean = 0.1;
/// Squared noise where a head's values are zeros.
constexpr double kLeastNoise = 1e-24;

/// The changes of one layer's heads.
class LayerMeasurement {
 public:
  LayerMeasurement(SessionImpl& session, std::span<const int32_t> last, int layer,
                   std::span<const float> unchanged)
      : session_(session),
        shape_(session.model.shape()),
        last_(last),
        layer_(layer),
        unchanged_(unchanged),
        random_(uint32_t(layer)),
        sum_(size_t(shape_.n_head), 0.0),
        count_(sum_) {
    for (int h = 0; h < shape_.n_head; ++h) noise_.push_back(kRelativeNoise * value_size(h));
  }

  /// Every position changes one head, see head_at().
  void run(int turn) {
    const auto kl = kl_of(turn, 1);
    for (size_t t = 0; t < kl.size(); ++t) {
      sum_[head_at(t, turn)] += kl[t];
      count_[head_at(t, turn)] += 1;
    }
  }

  /// [n_head] 2 KL over the squared length of the noise, the mean over the changes, less what
  /// rounding does.
  std::vector<float> sensitivity() {
    const double rounding = mean(kl_of(0, kRoundingNoise));
    std::vector<double> measured;
    for (size_t h = 0; h < sum_.size(); ++h) {
      const double squared = std::max(noise_[h] * noise_[h] * shape_.head_dim, kLeastNoise);
      measured.push_back(2 * std::max(0.0, sum_[h] / count_[h] - rounding) / squared);
    }
    const double least = kLeastOfMean * mean(measured);
    std::vector<float> out(measured.size());
    std::ranges::transform(measured, out.begin(),
                           [&](double s) { return float(std::max(s, least)); });
    return out;
  }

 private:
  /// KL at each position for the noise of a turn times `scale`.
  std::vector<double> kl_of(int turn, double scale);

  /// Heads take turns from position to position and on from run to run; where the positions are a
  /// multiple of the heads, one step further, so that a head meets other positions.
  size_t head_at(size_t position, int turn) const {
    const auto heads = size_t(shape_.n_head);
    const size_t step = last_.size() + (last_.size() % heads == 0 ? 1 : 0);
    return (position + size_t(turn) * step) % heads;
  }

  /// Root mean square of the numbers of a head's cached values.
  double value_size(int head) const {
    const int head_kv = head / shape_.group();
    std::vector<float> values(size_t(session_.cache.length(layer_, head_kv)) *
                              size_t(shape_.head_dim));
    session_.cache.read_values(layer_, head_kv, 0, values);
    const double sum = std::inner_product(values.begin(), values.end(), values.begin(), 0.0);
    return std::sqrt(sum / double(values.size()));
  }

  /// [last, n_head * head_dim]
  std::vector<float> signs(int turn, double scale) {
    const auto d = size_t(shape_.head_dim), width = size_t(shape_.n_head) * d;
    std::vector<float> out(last_.size() * width, 0.0F);
    for (size_t t = 0; t < last_.size(); ++t) {
      const size_t head = head_at(t, turn);
      const auto size = float(scale * noise_[head]);
      const auto first = out.begin() + int64_t(t * width + head * d);
      std::generate_n(first, d, [&] { return (random_() & 1U) != 0 ? size : -size; });
    }
    return out;
  }

  SessionImpl& session_;
  const ModelShape& shape_;
  std::span<const int32_t> last_;
  int layer_;
  std::span<const float> unchanged_;  // logits [last, n_vocab]
  std::mt19937 random_;
  std::vector<double> noise_, sum_, count_;  // [n_head]
};

/// Logits of all of `last` [last, n_vocab]; the cache is as before.
std::vector<float> logits_of(SessionImpl& session, std::span<const int32_t> last,
                             const HeadShift* shift) {
  std::vector<int32_t> rows(last.size());
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<float> logits;
  const int32_t end = session.cache.next_position();
  session.engine->run(session.cache,
                      {.tokens = last, .logit_rows = rows, .observe_rows = {}, .shift = shift},
                      logits, nullptr);
  session.cache.trim(end);
  return logits;
}

std::vector<double> LayerMeasurement::kl_of(int turn, double scale) {
  const std::vector<float> noise = signs(turn, scale);
  const HeadShift shift{.layer = layer_, .values = noise};
  const std::vector<float> changed = logits_of(session_, last_, &shift);
  const auto n_vocab = size_t(shape_.n_vocab);
  std::vector<double> kl(last_.size());
  parallel_for(int(last_.size()), session_.options.threads, [&](int t) {
    const size_t at = size_t(t) * n_vocab;
    kl[size_t(t)] =
        compare_logits(unchanged_.subspan(at, n_vocab), std::span(changed).subspan(at, n_vocab), {})
            .kl;
  });
  return kl;
}

}  // namespace

std::vector<float> head_sensitivity(Session& session, std::span<const int32_t> last, int samples,
                                    const Progress& progress) {
  const ModelShape& shape = session.model().shape();
  const auto positions = int(last.size());
  const int turns = (samples * shape.n_head + positions - 1) / positions;
  const std::vector<float> unchanged = logits_of(session.impl(), last, nullptr);
  std::vector<float> out;
  for (int layer = 0; layer < shape.n_layer; ++layer) {
    LayerMeasurement measurement(session.impl(), last, layer, unchanged);
    for (int turn = 0; turn < turns; ++turn) {
      report_share(progress, double(layer * turns + turn) / double(shape.n_layer * turns));
      measurement.run(turn);
    }
    const auto heads = measurement.sensitivity();
    out.insert(out.end(), heads.begin(), heads.end());
  }
  return out;
}

}  // namespace pith
