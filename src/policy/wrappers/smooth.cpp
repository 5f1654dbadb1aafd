#include "policy/protection.h"
#include "policy/smoothing.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

class SmoothWrapper : public Wrapper {
 public:
  SmoothWrapper(int kernel, Pooling pooling) : kernel_(kernel), pooling_(pooling) {
    if (kernel % 2 == 0) {
      throw Error(ErrorCode::usage,
                  "smooth: kernel=" + std::to_string(kernel) + " is not allowed (it must be odd)");
    }
  }

  void rescore(Scores& scores, const PolicyContext& context) const override {
    std::vector<float> pooled;
    for (size_t r = 0; r < scores.rows.size(); ++r) {
      auto& row = scores.rows[r];
      const auto eligible = eligible_entries(context, int(r));
      const auto part = std::span(row).subspan(size_t(eligible.first), size_t(eligible.count()));
      pooled.resize(part.size());
      pool(part, kernel_, pooling_, false, pooled);
      std::copy(pooled.begin(), pooled.end(), part.begin());
    }
  }

 private:
  int kernel_;
  Pooling pooling_;
};

}  // namespace

WrapperRow smooth_row() {
  return {.name = "smooth",
          .summary =
              "pools the score over neighbouring entries, so that what stands around an entry "
              "that matters stays with it",
          .paper = "the pooling of SnapKV (arXiv 2404.14469), for any score",
          .formula =
              "average or maximum over the `kernel` entries around; protected entries take no "
              "part",
          .differences = "",
          .knobs = {{.name = "kernel",
                     .value = "21",
                     .min = 1,
                     .max = 255,
                     .integer = true,
                     .choices = {},
                     .help = "entries pooled, odd"},
                    {.name = "pooling",
                     .value = "avg",
                     .choices = {"avg", "max"},
                     .help = "average or maximum over the kernel"}},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Wrapper> {
            const Pooling pooling = knobs.choice("pooling") == "max" ? Pooling::max : Pooling::avg;
            return std::make_unique<SmoothWrapper>(knobs.integer("kernel"), pooling);
          },
          .refuses = [](const ScoreRow& score) -> std::string {
            return score.draws_at_random ? "smoothed, draws are no longer independent" : "";
          }};
}

}  // namespace pith
