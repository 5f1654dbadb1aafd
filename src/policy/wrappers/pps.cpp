#include "policy/wrappers/reducing.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

class PpsWrapper : public QueryReducingWrapper {
 public:
  using QueryReducingWrapper::QueryReducingWrapper;

 private:
  measure::Support reduce(Task& task) const override {
    return measure::pps_support(features(task), task.count, task.random);
  }
};

std::vector<Knob> knobs_of_row() {
  auto knobs = ServedQueries::knobs();
  knobs.push_back(ReducingWrapper::seed_knob());
  return knobs;
}

}  // namespace

WrapperRow pps_row() {
  return {.name = "pps",
          .summary =
              "entries drawn by how much they answer to the queries, each standing for its share",
          .paper = "The risk of KV cache compression, arXiv 2607.01520",
          .formula =
              "chance by the length of the features of `weights`; systematic draw, log-weight "
              "log(1/chance)",
          .differences = "",
          .knobs = knobs_of_row(),
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Wrapper> {
            return std::make_unique<PpsWrapper>(knobs);
          },
          .reselects = true};
}

}  // namespace pith
