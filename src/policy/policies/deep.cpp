#include <algorithm>
#include <numeric>

#include "policy/policies/policies.h"
#include "policy/protection.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

/// Raises every eligible entry's place in `ranks` [n_rows][length] to that which `scores` give it
/// among all eligible ones of the cache: 0 for the lowest; ties go to the later row and entry.
void raise_to_rank(const PolicyContext& context, const Scores& scores,
                   std::vector<std::vector<float>>& ranks) {
  struct Place {
    float score;
    int row, entry;
  };
  std::vector<Place> places;
  for (int row = 0; row < context.cache.shape().n_rows(); ++row) {
    const Eligible eligible = eligible_entries(context, row);
    for (int i = eligible.first; i < eligible.last; ++i) {
      places.push_back({scores.rows[size_t(row)][size_t(i)], row, i});
    }
  }
  std::ranges::stable_sort(places, {}, &Place::score);
  for (size_t rank = 0; rank < places.size(); ++rank) {
    float& most = ranks[size_t(places[rank].row)][size_t(places[rank].entry)];
    most = std::max(most, float(rank));
  }
}

class DeepScorer : public Scorer {
 public:
  Needs needs() const override { return reads_.needs() | moves_.needs(); }

  Scores score(const PolicyContext& context) const override {
    const Scores reads = reads_.score(pass_of(context, 0, 0.5));
    const Scores moves = moves_.score(pass_of(context, 0.5, 1));
    Scores out;
    out.scratch_peak = std::max(reads.scratch_peak, moves.scratch_peak);
    out.notes = moves.notes;
    for (const auto& row : reads.rows) out.rows.emplace_back(row.size(), 0.0F);
    raise_to_rank(context, reads, out.rows);
    raise_to_rank(context, moves, out.rows);
    return out;
  }

 private:
  Policy reads_ = Policy::parse("kvzip");
  Policy moves_ = Policy::parse("sensitivity(source=repeat)");
};

}  // namespace

ScoreRow deep_row() {
  return {.name = "deep",
          .summary =
              "entries that the model reads, or whose loss would move it most, when it is "
              "told to repeat the prompt",
          .paper =
              "KVzip, arXiv 2505.23416, and the deletion counterfactual of "
              "Behavior-Preserving KV Cache Compression, arXiv 2610.06479",
          .formula =
              "the higher of an entry's ranks over the whole cache by `kvzip` and by "
              "`sensitivity(source=repeat)`",
          .differences = "",
          .budget = "global",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Scorer> {
            return std::make_unique<DeepScorer>();
          }};
}

}  // namespace pith
