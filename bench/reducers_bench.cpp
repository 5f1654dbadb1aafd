// How the error of each reducer falls with the number of entries kept, beside the bounds of The
// risk of KV cache compression (arXiv 2607.01520), on synthetic measures whose second moment falls
// fast (eigenvalues 1/i^2) or not at all. First checks that keeping everything errs by nothing.
// Prints a line a figure: spectrum, reducer, K, mean error in parts of what it is with nothing
// kept, its standard error. scripts/reducers_plot makes docs/results/reducers.md of them.

#include <Eigen/SVD>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <numeric>

#include "measure/reducers.h"
#include "measure/support.h"

namespace {

using namespace pith::measure;

constexpr int kEntries = 1024, kColumns = 256, kSeeds = 20;
constexpr int kKept[] = {16, 32, 64, 128, 256, 512};

using Reduce = std::function<Support(const RowMatrix<double>&, int, Random&)>;

std::vector<int> all_entries() {
  std::vector<int> all(kEntries);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Entries with random features whose second moment has the eigenvalues `of(i)`, i from 0.
RowMatrix<double> features(const std::function<double(int)>& of, Random& random) {
  std::normal_distribution<double> normal;
  RowMatrix<double> out(kEntries, kColumns);
  for (int i = 0; i < kEntries; ++i) {
    for (int c = 0; c < kColumns; ++c) out(i, c) = normal(random) * std::sqrt(of(c) / kEntries);
  }
  // What entries have in common, as answers of one head do: each stands for part of the others.
  out.rowwise() += out.row(0).eval() * 0.2;
  return out;
}

double error_of(const RowMatrix<double>& features, const Support& support) {
  return surrogate<double>(features, sum_of(features, all_entries()), support.entries,
                           support.weights);
}

Support fitted(const RowMatrix<double>& features, std::vector<int> entries) {
  std::ranges::sort(entries);
  const auto weights =
      fit_weights<double>(features, sum_of(features, all_entries()), entries,
                          {.ridge = 0, .sweeps = 30, .least = 0, .most = double(kEntries)});
  return {entries, weights};
}

Support uniform(const RowMatrix<double>&, int count, Random& random) {
  const auto chances = inclusion_chances(std::vector<double>(kEntries, 1), count);
  std::vector<int> order = all_entries();
  std::ranges::shuffle(order, random);
  Support out{systematic_sample(order, chances, 0.5), {}};
  out.weights.assign(out.entries.size(), double(kEntries) / count);
  return out;
}

struct Named {
  const char* name;
  Reduce reduce;
  bool draws = true;  ///< the seed matters
};

std::vector<Named> reducers() {
  const std::vector<double> masses(kEntries, 1);
  return {
      {"uniform", uniform},
      {"tree", [=](const auto& f, int k, Random& r) { return tree_support(f, masses, k, r); }},
      {"clusters", [=](const auto& f, int k, Random&) { return cluster_support(f, masses, k); },
       false},
      {"pps", pps_support},
      {"rounding", [](const auto& f, int k, Random& r) { return rounded_support(f, k, 256, r); }},
      {"omp",
       [](const auto& f, int k, Random&) {
         return fitted(f, pursue<double>(f, sum_of(f, all_entries()), all_entries(), {}, k,
                                         {.fit = {.ridge = 0}}));
       },
       false}};
}

/// Eigenvalues of the features' second moment, falling.
std::vector<double> spectrum(const RowMatrix<double>& features) {
  const Eigen::VectorXd singular = features.bdcSvd().singularValues();
  std::vector<double> out;
  for (const double s : singular) out.push_back(s * s);
  return out;
}

void print_bounds(const char* name, const RowMatrix<double>& features, double nothing) {
  const std::vector<double> eigenvalues = spectrum(features);
  const double trace = std::accumulate(eigenvalues.begin(), eigenvalues.end(), 0.0);
  for (const int k : kKept) {
    const auto first = eigenvalues.begin() + std::min<long>(k / 3, std::ssize(eigenvalues));
    const double tail = std::accumulate(first, eigenvalues.end(), 0.0);
    // Weights are n / K on average: the bounds are of a probability measure, the sum is n times it.
    const double scale = double(kEntries) / k / nothing;
    std::printf("%s,bound tail_{K/3}/K,%d,%.6g,0\n", name, k, tail * scale);
    std::printf("%s,bound tr/K,%d,%.6g,0\n", name, k, trace * scale);
  }
}

bool study(const char* name, const std::function<double(int)>& of) {
  Random random(1);
  const RowMatrix<double> f = features(of, random);
  const double nothing = error_of(f, {});
  if (error_of(f, {all_entries(), std::vector<double>(kEntries, 1)}) > 1e-12 * nothing)
    return false;
  for (const Named& reducer : reducers()) {
    for (const int k : kKept) {
      double sum = 0, squares = 0;
      const int seeds = reducer.draws ? kSeeds : 1;
      for (int seed = 0; seed < seeds; ++seed) {
        Random own(uint64_t(seed) + 7);
        const double error = error_of(f, reducer.reduce(f, k, own)) / nothing;
        sum += error;
        squares += error * error;
      }
      const double mean = sum / seeds;
      const double variance = std::max(0.0, squares / seeds - mean * mean);
      std::printf("%s,%s,%d,%.6g,%.6g\n", name, reducer.name, k, mean,
                  std::sqrt(variance / std::max(1, seeds - 1)));
      std::fflush(stdout);
    }
  }
  print_bounds(name, f, nothing);
  return true;
}

}  // namespace

int main() {
  std::printf("spectrum,reducer,kept,error,standard_error\n");
  const bool right = study("fast", [](int i) { return 1.0 / ((i + 1.0) * (i + 1.0)); }) &&
                     study("flat", [](int) { return 1.0 / kColumns; });
  if (!right) std::fprintf(stderr, "keeping everything errs\n");
  return right ? 0 : 1;
}
