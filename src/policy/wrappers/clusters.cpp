#include "policy/wrappers/reducing.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

class ClustersWrapper : public PointReducingWrapper {
  measure::Support reduce(Task& task) const override {
    return measure::cluster_support(points(task), masses(task), task.count);
  }
};

}  // namespace

WrapperRow clusters_row() {
  return {.name = "clusters",
          .summary =
              "of each of many cells of equal mass the middle entry, standing for the cell; knows "
              "no queries",
          .paper = "The risk of KV cache compression, arXiv 2607.01520",
          .formula =
              "cells as in `tree`, as many as entries stay; the member nearest to a cell's mean "
              "carries its mass",
          .differences = "",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Wrapper> {
            return std::make_unique<ClustersWrapper>();
          },
          .reselects = true};
}

}  // namespace pith
