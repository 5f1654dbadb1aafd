#include "policy/wrappers/reducing.h"
#include "policy/wrappers/weighting.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

class PpsWrapper : public ReducingWrapper {
 public:
  explicit PpsWrapper(const KnobValues& knobs) : ReducingWrapper(seed_of(knobs)), queries_(knobs) {}

  Needs needs() const override { return queries_.needs(); }

 protected:
  measure::Support reduce(Task& task) const override {
    const auto features = queries_.features(task.context, task.layer, task.head_kv)
                              .middleRows(task.eligible.first, task.eligible.count())
                              .cast<double>()
                              .eval();
    return measure::pps_support(features, task.count, task.random);
  }

  size_t bytes(const PolicyContext& context, int layer, int head_kv) const override {
    return 3 * queries_.bytes(context, layer, head_kv);
  }

 private:
  ServedQueries queries_;
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
