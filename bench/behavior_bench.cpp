// Time of scoring with `behavior` on a cache of the packaged model's shape, by phase, and how it
// grows with the number of entries. First checks eviction paths against the exact greedy.

#include <cmath>
#include <cstdio>
#include <thread>

#include "base/parallel.h"
#include "base/timer.h"
#include "behavior/greedy.h"
#include "policy/policies/behavior_inputs.h"
#include "policy/policy.h"
#include "support/synthetic.h"

namespace {

using namespace pith;
using behavior::Candidate;
using behavior::GroupFeatures;
using behavior::Mask;
using behavior::Objective;

constexpr int kPositions = 64, kTopK = 64, kRank = 4;

test::Synthetic packaged_shape(int entries) {
  return test::make_synthetic({.shape = {.n_layer = 30,
                                         .n_head = 9,
                                         .n_head_kv = 3,
                                         .head_dim = 64,
                                         .n_embd = 576,
                                         .n_vocab = 8192},
                               .lengths = {entries},
                               .observed = kPositions});
}

double seconds(const auto& work) {
  const Timer timer;
  work();
  return timer.seconds();
}

/// One group down to three tenths, exactly and with re-checks.
bool paths_match_the_exact_greedy(const test::Synthetic& synthetic, int entries) {
  const PolicyContext context = synthetic.context(9 * entries);
  const BehaviorInputs inputs(context, Objective::head, kPositions, kTopK, kRank);
  GroupFeatures<float> features;
  inputs.make_features(0, 0, features);
  std::vector<Candidate> all;
  for (int i = 4; i < entries - 32; ++i) all.push_back({0, i});
  const behavior::GreedyOptions options{.evictions = entries * 7 / 10};

  Mask<float> exact({&features, 1}, Objective::head), fast({&features, 1}, Objective::head);
  const double exact_s = seconds([&] { behavior::evict_exactly(exact, all, options); });
  const double fast_s = seconds([&] { behavior::evict_with_recheck(fast, all, options); });
  std::printf(
      "one head, 70 %% of %d evicted: cost %.6f exact, %.6f re-check; %.4f s, %.4f s (x%.0f)\n",
      entries, exact.cost(), fast.cost(), exact_s, fast_s, exact_s / fast_s);
  return fast.cost() < 1.05 * exact.cost();
}

/// Prints one row; returns the whole time.
double time_phases(const test::Synthetic& synthetic, int entries, int threads) {
  const PolicyContext context = synthetic.context(9 * entries, threads);
  const ModelShape& shape = context.cache.shape();
  const auto each_row = [&](const auto& body) {
    return seconds([&] {
      parallel_for(shape.n_rows(), threads,
                   [&](int row) { body(row / shape.n_head_kv, row % shape.n_head_kv); });
    });
  };
  const double readout = seconds(
      [&] { const BehaviorInputs inputs(context, Objective::head, kPositions, kTopK, kRank); });
  const double attention = each_row(
      [&](int layer, int head_kv) { attention_probs(context, layer, head_kv, kPositions); });
  const BehaviorInputs inputs(context, Objective::head, kPositions, kTopK, kRank);
  const double with_features = each_row([&](int layer, int head_kv) {
    GroupFeatures<float> features;
    inputs.make_features(layer, head_kv, features);
  });
  const Policy policy = Policy::parse("behavior");
  const double whole = seconds([&] { policy.score(context); });
  std::printf("%7d %8.3f %9.3f %8.3f %8.3f %8.3f\n", entries, readout, attention,
              with_features - attention, whole - with_features - readout, whole);
  return whole;
}

}  // namespace

int main() {
  if (!paths_match_the_exact_greedy(packaged_shape(1000), 1000)) {
    std::puts("re-check ends more than 5 % above the exact greedy");
    return 1;
  }
  const int threads = int(std::thread::hardware_concurrency());
  std::printf("%d threads, seconds\nentries  readout attention features    paths    whole\n",
              threads);
  double first = 0, last = 0;
  for (const int entries : {1000, 2000, 4000, 8000}) {
    last = time_phases(packaged_shape(entries), entries, threads);
    if (first == 0) first = last;
  }
  std::printf("grows as entries^%.2f\n", std::log(last / first) / std::log(8.0));
  return 0;
}
