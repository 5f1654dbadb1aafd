#pragma once

#include <fstream>
#include <nlohmann/json.hpp>

#include "measure/features.h"
#include "reference/measure.hpp"

namespace pith::test {

/// data/measure.json: one head of 32 entries and 6 queries with its Gram matrix, pursuits, risk and
/// tree in float64.
struct MeasureFixture {
  nlohmann::json json = nlohmann::json::parse(std::ifstream(PITH_TEST_DATA "/measure.json"));
  reference::MeasureCase head{.entries = json["n"],
                              .queries = json["m"],
                              .head_dim = json["d"],
                              .alpha = by_entry(),
                              .values = json["V"],
                              .tau = json["tau"]};

  measure::Responses<double> responses() const {
    return {.entries = head.entries,
            .queries = head.queries,
            .head_dim = head.head_dim,
            .alpha = head.alpha,
            .values = head.values,
            .scale = 1 / std::sqrt(double(head.queries))};
  }

  measure::RowMatrix<double> features() const { return sketch(head.queries, 0); }

  measure::RowMatrix<double> sketch(int buckets, uint32_t seed) const {
    measure::RowMatrix<double> out =
        measure::RowMatrix<double>::Zero(head.entries, buckets * (head.head_dim + 1));
    auto all = responses();
    all.seed = seed;
    measure::add_features<double>({&all, 1}, head.tau, out);
    return out;
  }

 private:
  /// The fixture has [queries, entries].
  std::vector<double> by_entry() const {
    const std::vector<double> by_query = json["alpha"];
    const int n = json["n"], m = json["m"];
    std::vector<double> out(by_query.size());
    for (int i = 0; i < n; ++i) {
      for (int q = 0; q < m; ++q) out[size_t(i * m + q)] = by_query[size_t(q * n + i)];
    }
    return out;
  }
};

}  // namespace pith::test
