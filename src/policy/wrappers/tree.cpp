#include "policy/wrappers/reducing.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

class TreeWrapper : public PointReducingWrapper {
 public:
  explicit TreeWrapper(const KnobValues& knobs) : PointReducingWrapper(seed_of(knobs)) {}

 private:
  measure::Support reduce(Task& task) const override {
    return measure::tree_support(points(task), masses(task), task.count, task.random);
  }
};

}  // namespace

WrapperRow tree_row() {
  return {.name = "tree",
          .summary =
              "entries drawn evenly over where keys and values lie, each standing for its share; "
              "knows no queries",
          .paper = "The risk of KV cache compression, arXiv 2607.01520",
          .formula =
              "cells of [centred key; value / 2] cut at the midpoint of their mass along their "
              "leading direction; systematic draw along the leaves, log-weight log(1/chance)",
          .differences = "",
          .knobs = {ReducingWrapper::seed_knob()},
          .make = [](const KnobValues& knobs) -> std::unique_ptr<Wrapper> {
            return std::make_unique<TreeWrapper>(knobs);
          },
          .reselects = true};
}

}  // namespace pith
