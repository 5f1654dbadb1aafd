#include <algorithm>
#include <numeric>

#include "policy/protection.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

class ChunkWrapper : public Wrapper {
 public:
  explicit ChunkWrapper(int size) : size_(size) {}

  void rescore(Scores& scores, const PolicyContext& context) const override {
    for (size_t r = 0; r < scores.rows.size(); ++r) {
      auto& row = scores.rows[r];
      const auto eligible = eligible_entries(context, int(r));
      for (int first = eligible.first; first < eligible.last; first += size_) {
        const auto begin = row.begin() + first;
        const auto end = row.begin() + std::min(first + size_, eligible.last);
        std::fill(begin, end, std::accumulate(begin, end, 0.0F) / float(end - begin));
      }
    }
  }

 private:
  int size_;
};

}  // namespace

WrapperRow chunk_row() {
  return {.name = "chunk",
          .summary = "keeps or evicts whole runs of neighbouring entries",
          .paper =
              "Liu et al., ChunkKV: Semantic-Preserving KV Cache Compression for Efficient "
              "Long-Context LLM Inference, arXiv 2502.00299",
          .formula = "every entry gets the mean score of its run of `size` eligible entries",
          .differences =
              "of the run at the edge of the budget the newest entries stay, so that "
              "totals are exact; layers do not reuse each other's choice",
          .knobs = {{.name = "size",
                     .value = "20",
                     .min = 1,
                     .max = 4096,
                     .integer = true,
                     .choices = {},
                     .help = "entries of a run"}},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Wrapper> {
            return std::make_unique<ChunkWrapper>(knobs.integer("size"));
          },
          .refuses = [](const ScoreRow& score) -> std::string {
            return score.draws_at_random ? "runs are not drawn independently" : "";
          }};
}

}  // namespace pith
