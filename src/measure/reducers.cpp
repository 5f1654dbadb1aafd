#include "measure/reducers.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <numeric>

namespace pith::measure {

namespace {

using Vector = Eigen::VectorXd;
using Cell = std::span<int>;

constexpr int kPowerSteps = 6;
/// Chances never fall below this part of what equal ones would be: nothing is out for good.
constexpr double kLeastChance = 1e-3;

double uniform(Random& random) { return std::uniform_real_distribution<double>(0, 1)(random); }

std::vector<int> all_entries(Eigen::Index count) {
  std::vector<int> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

double sum_over(std::span<const int> cell, std::span<const double> values) {
  double sum = 0;
  for (const int i : cell) sum += values[size_t(i)];
  return sum;
}

Vector mean_of(const RowMatrix<double>& points, std::span<const int> cell,
               std::span<const double> masses) {
  Vector mean = Vector::Zero(points.cols());
  for (const int i : cell) mean += masses[size_t(i)] * points.row(i).transpose();
  const double mass = sum_over(cell, masses);
  return mass > 0 ? Vector(mean / mass) : mean;
}

/// Leading direction of a cell about its mean.
Vector leading_direction(const RowMatrix<double>& points, std::span<const int> cell,
                         std::span<const double> masses, const Vector& mean) {
  Vector direction = Vector::Zero(points.cols());
  double farthest = -1;
  for (const int i : cell) {
    const Vector off = points.row(i).transpose() - mean;
    if (off.squaredNorm() <= farthest) continue;
    farthest = off.squaredNorm();
    direction = off;
  }
  for (int step = 0; step < kPowerSteps; ++step) {
    Vector next = Vector::Zero(points.cols());
    for (const int i : cell) {
      const Vector off = points.row(i).transpose() - mean;
      next += masses[size_t(i)] * off.dot(direction) * off;
    }
    const double length = next.norm();
    if (!(length > 0)) break;
    direction = next / length;
  }
  return direction;
}

/// Orders a cell along its leading direction; ties go to the lower entry.
void sort_along(const RowMatrix<double>& points, Cell cell, std::span<const double> masses) {
  const Vector mean = mean_of(points, cell, masses);
  const Vector direction = leading_direction(points, cell, masses, mean);
  std::vector<std::pair<double, int>> projected;
  for (const int i : cell) {
    projected.emplace_back((points.row(i).transpose() - mean).dot(direction), i);
  }
  std::ranges::sort(projected);
  std::ranges::transform(projected, cell.begin(), [](const auto& p) { return p.second; });
}

/// How many of the first entries of a cell make up `part` of its mass: those whose middle lies in
/// it, within [least, most].
size_t cut_at(std::span<const int> cell, std::span<const double> masses, double part, size_t least,
              size_t most) {
  const double wanted = part * sum_over(cell, masses);
  double before = 0;
  size_t count = 0;
  for (const int i : cell) {
    const double mass = masses[size_t(i)];
    if (before + mass / 2 >= wanted) break;
    before += mass;
    ++count;
  }
  return std::clamp(count, least, most);
}

/// Cuts a cell into halves until `chances` sum to 1 at most.
void order_cell(const RowMatrix<double>& points, Cell cell, std::span<const double> chances) {
  constexpr double kRounding = 1e-9;
  if (cell.size() < 2 || sum_over(cell, chances) <= 1 + kRounding) return;
  sort_along(points, cell, chances);
  const size_t cut = cut_at(cell, chances, 0.5, 1, cell.size() - 1);
  order_cell(points, cell.first(cut), chances);
  order_cell(points, cell.subspan(cut), chances);
}

/// Cuts a cell into `count` of equal mass and hands each to `leaf`.
template <class Leaf>
void each_cell(const RowMatrix<double>& points, Cell cell, std::span<const double> masses,
               size_t count, const Leaf& leaf) {
  if (count == 1) return leaf(cell);
  sort_along(points, cell, masses);
  const size_t left = count / 2;
  const size_t cut =
      cut_at(cell, masses, double(left) / double(count), left, cell.size() - (count - left));
  each_cell(points, cell.first(cut), masses, left, leaf);
  each_cell(points, cell.subspan(cut), masses, count - left, leaf);
}

Support weighted(std::vector<int> entries, std::span<const double> chances) {
  Support out{std::move(entries), {}};
  for (const int i : out.entries) out.weights.push_back(1 / chances[size_t(i)]);
  return out;
}

std::vector<double> lengths_of(const RowMatrix<double>& features) {
  Vector norms = features.rowwise().norm();
  norms = norms.cwiseMax(kLeastChance * norms.mean());
  return {norms.begin(), norms.end()};
}

/// The walk of rounded_support: `x` [n] ends at 0 or 1 but for a few entries.
class Walk {
 public:
  /// What has to stay right, a row a component [components, n].
  Walk(Eigen::MatrixXd fixed, std::vector<double>& x, Random& random)
      : fixed_(std::move(fixed)), x_(x), random_(random) {}

  /// The entries that are left undecided.
  std::vector<int> run() {
    const auto enough = size_t(fixed_.rows()) + 1;
    std::vector<int> open;
    for (int i = 0; i < int(x_.size()); ++i) {
      if (is_open(i)) open.push_back(i);
      while (open.size() >= enough) {
        step(open);
        std::erase_if(open, [&](int j) { return !is_open(j); });
      }
    }
    return open;
  }

 private:
  static constexpr double kDecided = 1e-9;
  bool is_open(int i) const { return x_[size_t(i)] > kDecided && x_[size_t(i)] < 1 - kDecided; }

  /// Moves along a direction that changes no component, either way as is fair, until an entry is
  /// decided.
  void step(const std::vector<int>& open) {
    Eigen::MatrixXd columns(fixed_.rows(), Eigen::Index(open.size()));
    for (size_t j = 0; j < open.size(); ++j) columns.col(Eigen::Index(j)) = fixed_.col(open[j]);
    const Vector way = columns.fullPivLu().kernel().col(0);
    const double forth = reach(open, way), back = reach(open, -way);
    const double move = uniform(random_) < back / (forth + back) ? forth : -back;
    for (size_t j = 0; j < open.size(); ++j) {
      double& value = x_[size_t(open[j])];
      value = std::clamp(value + move * way[Eigen::Index(j)], 0.0, 1.0);
    }
  }

  /// How far `way` can be gone within [0, 1].
  double reach(const std::vector<int>& open, const Vector& way) const {
    double most = std::numeric_limits<double>::infinity();
    for (size_t j = 0; j < open.size(); ++j) {
      const double speed = way[Eigen::Index(j)], value = x_[size_t(open[j])];
      if (speed > 0) most = std::min(most, (1 - value) / speed);
      if (speed < 0) most = std::min(most, -value / speed);
    }
    return most;
  }

  Eigen::MatrixXd fixed_;
  std::vector<double>& x_;
  Random& random_;
};

/// An orthonormal basis [columns, count] of about the leading directions of the features' second
/// moment, by subspace iteration.
Eigen::MatrixXd leading_directions(const RowMatrix<double>& features, int count, Random& random) {
  Eigen::MatrixXd basis(features.cols(), count);
  for (double& value : basis.reshaped()) value = uniform(random) - 0.5;
  for (int step = 0; step < kPowerSteps; ++step) {
    if (step > 0) basis = features.transpose() * (features * basis).eval();
    const Eigen::HouseholderQR<Eigen::MatrixXd> qr(basis);
    basis = qr.householderQ() * Eigen::MatrixXd::Identity(basis.rows(), count);
  }
  return basis;
}

/// Components of each entry's feature, one over its chance, above a row of ones for the count.
Eigen::MatrixXd kept_right(const RowMatrix<double>& features, std::span<const double> chances,
                           int directions, Random& random) {
  Eigen::MatrixXd out(directions + 1, features.rows());
  if (directions > 0) {
    const Eigen::MatrixXd basis = leading_directions(features, directions, random);
    out.topRows(directions).noalias() = (features * basis).transpose();
  }
  for (Eigen::Index i = 0; i < features.rows(); ++i) {
    out.col(i).head(directions) /= chances[size_t(i)];
  }
  out.bottomRows(1).setOnes();
  return out;
}

}  // namespace

std::vector<double> inclusion_chances(std::span<const double> sizes, int count) {
  std::vector<double> chances(sizes.begin(), sizes.end());
  if (std::ranges::all_of(chances, [](double size) { return size == 0; })) {
    std::ranges::fill(chances, 1);
  }
  std::vector<bool> sure(sizes.size(), false);
  // Those that would pass 1 are sure, and the rest share what is left.
  for (bool again = true; again;) {
    double sum = 0;
    int left = count;
    for (size_t i = 0; i < chances.size(); ++i) (sure[i] ? left -= 1 : sum += chances[i], 0);
    again = false;
    for (size_t i = 0; i < chances.size(); ++i) {
      if (sure[i]) continue;
      chances[i] = sum > 0 ? chances[i] * left / sum : 0;
      again = again || chances[i] > 1;
    }
    for (size_t i = 0; i < chances.size(); ++i) {
      if (chances[i] < 1) continue;
      sure[i] = true;
      chances[i] = 1;
    }
  }
  return chances;
}

std::vector<int> systematic_sample(std::span<const int> order, std::span<const double> chances,
                                   double offset) {
  std::vector<int> out;
  double sum = 0, next = offset;
  for (const int i : order) {
    sum += chances[size_t(i)];
    if (next >= sum) continue;
    out.push_back(i);
    next += 1;
  }
  std::ranges::sort(out);
  // Rounding may leave a whole sum just short of its last step.
  constexpr double kRounding = 1e-6;
  const auto whole = std::lround(sum);
  if (std::abs(sum - double(whole)) > kRounding) return out;
  for (size_t at = order.size(); at > 0 && std::ssize(out) < whole; --at) {
    const auto place = std::ranges::lower_bound(out, order[at - 1]);
    if (place == out.end() || *place != order[at - 1]) out.insert(place, order[at - 1]);
  }
  return out;
}

std::vector<int> bisection_order(const RowMatrix<double>& points, std::span<const double> chances) {
  std::vector<int> order = all_entries(points.rows());
  order_cell(points, order, chances);
  return order;
}

Support tree_support(const RowMatrix<double>& points, std::span<const double> masses, int count,
                     Random& random) {
  const auto chances = inclusion_chances(masses, count);
  const auto order = bisection_order(points, chances);
  return weighted(systematic_sample(order, chances, uniform(random)), chances);
}

Support cluster_support(const RowMatrix<double>& points, std::span<const double> masses,
                        int count) {
  std::vector<int> order = all_entries(points.rows());
  std::vector<std::pair<int, double>> kept;
  each_cell(points, order, masses, size_t(count), [&](Cell cell) {
    const Vector mean = mean_of(points, cell, masses);
    const auto distance = [&](int i) { return (points.row(i).transpose() - mean).squaredNorm(); };
    std::ranges::sort(cell);
    const int one = *std::ranges::min_element(cell, {}, distance);
    const double own = masses[size_t(one)];
    kept.emplace_back(one, own > 0 ? sum_over(cell, masses) / own : 1);
  });
  std::ranges::sort(kept);
  Support out;
  for (const auto& [entry, weight] : kept) {
    out.entries.push_back(entry);
    out.weights.push_back(weight);
  }
  return out;
}

Support pps_support(const RowMatrix<double>& features, int count, Random& random) {
  const auto chances = inclusion_chances(lengths_of(features), count);
  return weighted(systematic_sample(all_entries(features.rows()), chances, uniform(random)),
                  chances);
}

Support rounded_support(const RowMatrix<double>& features, int count, int directions,
                        Random& random) {
  const auto chances = inclusion_chances(lengths_of(features), count);
  const int kept = std::min({directions, count / 3, int(features.cols())});
  std::vector<double> x = chances;
  const std::vector<int> open = Walk(kept_right(features, chances, kept, random), x, random).run();
  std::vector<int> entries = systematic_sample(open, x, uniform(random));
  for (int i = 0; i < int(x.size()); ++i) {
    if (x[size_t(i)] > 0.5 && std::ranges::find(open, i) == open.end()) entries.push_back(i);
  }
  std::ranges::sort(entries);
  return weighted(std::move(entries), chances);
}

}  // namespace pith::measure
