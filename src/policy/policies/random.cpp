#include <limits>

#include "policy/policies/policies.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

/// Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (SplitMix64), the mixing
/// step.
uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15U;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31U);
}

/// Uniform in [0, 1) with the 24 bits that a float holds.
float uniform(uint64_t hash) { return float(hash >> 40U) * 0x1p-24F; }

class RandomScorer : public Scorer {
 public:
  explicit RandomScorer(int seed) : seed_(mix(uint64_t(seed))) {}

  Scores score(const PolicyContext& context) const override {
    const auto no_scratch = [](int, int) { return size_t{0}; };
    return score_each_row(context, no_scratch, [&](const ScoredRow& row) {
      const auto positions = context.cache.positions(row.layer, row.head_kv);
      const uint64_t head = mix(mix(seed_ ^ uint64_t(row.layer)) ^ uint64_t(row.head_kv));
      for (size_t i = 0; i < positions.size(); ++i) {
        row.scores[i] = uniform(mix(head ^ uint64_t(positions[i])));
      }
    });
  }

 private:
  uint64_t seed_;
};

}  // namespace

ScoreRow random_row() {
  return {.name = "random",
          .summary = "entries drawn at random: what any method has to beat",
          .paper = "",
          .formula = "hash(seed, layer, KV head, position), uniform in [0, 1)",
          .differences = "",
          .budget = "uniform",
          .knobs = {{.name = "seed",
                     .value = "0",
                     .min = 0,
                     .max = std::numeric_limits<int>::max(),
                     .integer = true,
                     .choices = {},
                     .help = "another seed draws other entries"}},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Scorer> {
            return std::make_unique<RandomScorer>(knobs.integer("seed"));
          },
          .draws_at_random = true};
}

}  // namespace pith
