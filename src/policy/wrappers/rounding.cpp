#include "policy/wrappers/reducing.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

class RoundingWrapper : public QueryReducingWrapper {
 public:
  explicit RoundingWrapper(const KnobValues& knobs)
      : QueryReducingWrapper(knobs), directions_(knobs.integer("directions")) {}

 private:
  measure::Support reduce(Task& task) const override {
    return measure::rounded_support(features(task), task.count, directions_, task.random);
  }

  int directions_;
};

std::vector<Knob> knobs_of_row() {
  auto knobs = ServedQueries::knobs("8");
  knobs.push_back({.name = "directions",
                   .value = "32",
                   .min = 0,
                   .max = 256,
                   .integer = true,
                   .choices = {},
                   .help = "components that stay right, at most a third of the entries"});
  knobs.push_back(ReducingWrapper::seed_knob());
  return knobs;
}

}  // namespace

WrapperRow rounding_row() {
  return {
      .name = "rounding",
      .summary = "as pps, but what the queries mostly read stays right to the last few entries",
      .paper = "The risk of KV cache compression, arXiv 2607.01520",
      .formula =
          "chances as in `pps`, moved at random along directions that leave the leading third of "
          "the components of sum phi as they are, until each is 0 or 1; log-weight log(1/chance)",
      .differences = "at most `directions` components, and these found by subspace iteration",
      .knobs = knobs_of_row(),
      .make = [](const KnobValues& knobs) -> std::unique_ptr<Wrapper> {
        return std::make_unique<RoundingWrapper>(knobs);
      },
      .reselects = true};
}

}  // namespace pith
