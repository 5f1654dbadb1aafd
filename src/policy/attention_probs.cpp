#include "policy/attention_probs.h"

#include <Eigen/Core>
#include <algorithm>
#include <limits>

namespace pith {

namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixMap = Eigen::Map<Matrix>;

/// Positions that each_attention_tile takes at a time.
constexpr int kTile = 64;

/// Some observed positions: first, first + 1, .. of an observation.
struct Positions {
  const Observation& seen;
  int first, count;

  std::span<const int32_t> numbers() const {
    return std::span(seen.positions).subspan(size_t(first), size_t(count));
  }
};

Positions last_positions(const PolicyContext& context, int count) {
  const int m = observed_count(context, count);
  return {.seen = context.seen, .first = int(context.seen.positions.size()) - m, .count = m};
}

/// Queries of a group, scaled [count * group, head_dim].
Matrix scaled_queries(const PolicyContext& context, const Positions& at, int layer, int head_kv) {
  const ModelShape& shape = context.cache.shape();
  const int group = shape.group();
  const float* query = at.seen.query.at(size_t(layer)).data();
  Matrix out(Eigen::Index{at.count} * group, shape.head_dim);
  for (int t = 0; t < at.count; ++t) {
    const Eigen::Index head = Eigen::Index(at.first + t) * shape.n_head + head_kv * group;
    out.middleRows(Eigen::Index{t} * group, group) =
        Eigen::Map<const Matrix>(query + head * shape.head_dim, group, shape.head_dim);
  }
  return context.weights.attention_scale() * out;
}

/// For each key the first row that sees it: the rows after it, being later, see it too.
std::vector<int> first_rows(std::span<const int32_t> keys, std::span<const int32_t> seen,
                            int group) {
  std::vector<int> out;
  out.reserve(keys.size());
  for (const int32_t position : keys) {
    const auto t = std::lower_bound(seen.begin(), seen.end(), position) - seen.begin();
    out.push_back(int(t) * group);
  }
  return out;
}

/// Softmax over the keys of several blocks of logits [keys, rows]: first all blocks are shown with
/// see(), then each is made into weights in the same order, then into probabilities.
class Softmax {
 public:
  explicit Softmax(Eigen::Index rows)
      : highest_(Eigen::ArrayXf::Constant(rows, std::numeric_limits<float>::lowest())),
        sum_(Eigen::ArrayXd::Zero(rows)) {}

  void see(MatrixMap& logits, std::span<const int> first, std::span<const float> log_weights) {
    for (Eigen::Index i = 0; i < logits.rows(); ++i) {
      const Eigen::Index seeing = logits.cols() - first[size_t(i)];
      auto row = logits.row(i).tail(seeing).transpose().array();
      if (!log_weights.empty()) row += log_weights[size_t(i)];
      highest_.tail(seeing) = highest_.tail(seeing).max(row);
    }
  }

  void exponentiate(MatrixMap& logits, std::span<const int> first) {
    for (Eigen::Index i = 0; i < logits.rows(); ++i) {
      const Eigen::Index seeing = logits.cols() - first[size_t(i)];
      auto row = logits.row(i).tail(seeing).transpose().array();
      row = (row - highest_.tail(seeing)).exp();
      sum_.tail(seeing) += row.cast<double>();
      logits.row(i).head(logits.cols() - seeing).setZero();
    }
  }

  /// A row that sees no key gets zeros.
  void divide(MatrixMap& weights) const {
    const Eigen::ArrayXf factor = (sum_ > 0).select(sum_.inverse(), 0).cast<float>();
    weights.array().rowwise() *= factor.transpose();
  }

 private:
  Eigen::ArrayXf highest_;
  Eigen::ArrayXd sum_;
};

/// Keys of the observed positions themselves, up to the last of `at`; empty where they are in the
/// cache.
Matrix own_keys(const PolicyContext& context, const Positions& at, int layer, int head_kv) {
  if (at.seen.own_keys.empty()) return {};
  const Eigen::Index d = context.cache.shape().head_dim;
  const auto all = Eigen::Index(at.seen.positions.size());
  const float* keys = at.seen.own_keys.at(size_t(layer)).data() + head_kv * all * d;
  return Eigen::Map<const Matrix>(keys, at.first + at.count, d);
}

AttentionProbs probs_at(const PolicyContext& context, const Positions& at, int layer, int head_kv) {
  const int group = context.cache.shape().group();
  const auto entries = context.cache.positions(layer, head_kv);
  const int32_t last = at.count == 0 ? -1 : at.numbers().back();
  AttentionProbs out;
  out.entries = int(std::ranges::upper_bound(entries, last) - entries.begin());
  out.rows = at.count * group;
  out.alpha.resize(size_t(out.entries) * size_t(out.rows));

  Matrix keys(out.entries, context.cache.shape().head_dim);
  context.cache.keys(layer, head_kv, 0, {keys.data(), size_t(keys.size())});
  const Matrix queries = scaled_queries(context, at, layer, head_kv);
  MatrixMap logits(out.alpha.data(), out.entries, out.rows);
  logits.noalias() = keys * queries.transpose();
  const auto first = first_rows(entries.first(size_t(out.entries)), at.numbers(), group);

  const Matrix own = own_keys(context, at, layer, head_kv);
  Matrix own_product(own.rows(), out.rows);
  if (own.rows() > 0) own_product.noalias() = own * queries.transpose();
  MatrixMap own_logits(own_product.data(), own_product.rows(), own_product.cols());
  const auto own_first =
      first_rows(std::span(at.seen.positions).first(size_t(own.rows())), at.numbers(), group);

  Softmax softmax(out.rows);
  softmax.see(logits, first, context.cache.log_weights(layer, head_kv));
  softmax.see(own_logits, own_first, {});
  softmax.exponentiate(logits, first);
  softmax.exponentiate(own_logits, own_first);
  softmax.divide(logits);
  return out;
}

size_t probs_bytes(const PolicyContext& context, size_t entries, size_t own, int positions) {
  const ModelShape& shape = context.cache.shape();
  const auto rows = size_t(positions) * size_t(shape.group());
  const auto d = size_t(shape.head_dim);
  // Probabilities, keys, first seeing row of each; queries (twice while they are scaled).
  return sizeof(float) * ((entries + own) * (rows + d + 1) + 2 * rows * d);
}

/// The observations that a reading goes through.
std::vector<Positions> parts_of(const PolicyContext& context, const Reading& reading) {
  std::vector<Positions> out;
  if (reading.source == Source::tail) out.push_back(last_positions(context, reading.count));
  if (reading.source == Source::prompt && context.prompt != nullptr) {
    out.push_back({*context.prompt, 0, int(context.prompt->positions.size())});
  }
  if (reading.source == Source::repeat) {
    for (const Observation& part : context.repeat) {
      out.push_back({part, 0, int(part.positions.size())});
    }
  }
  return out;
}

}  // namespace

int observed_count(const PolicyContext& context, int count) {
  return std::min(count, int(context.seen.positions.size()));
}

size_t attention_probs_bytes(const PolicyContext& context, int layer, int head_kv, int count) {
  return probs_bytes(context, size_t(context.cache.length(layer, head_kv)), 0,
                     observed_count(context, count));
}

AttentionProbs attention_probs(const PolicyContext& context, int layer, int head_kv, int count) {
  return probs_at(context, last_positions(context, count), layer, head_kv);
}

Needs Reading::needs() const {
  return {.tail = source == Source::tail ? count : 0,
          .prompt = source == Source::prompt,
          .repeat = source == Source::repeat};
}

int64_t Reading::positions(const PolicyContext& context, const std::string& reader) const {
  int64_t total = 0;
  for (const Positions& part : parts_of(context, *this)) total += part.count;
  if (total == 0) {
    throw Error(ErrorCode::usage, reader + " needs observed positions: observe part of the prompt");
  }
  return total;
}

void each_attention_tile(const PolicyContext& context, const Reading& reading, int layer,
                         int head_kv,
                         const std::function<void(const AttentionProbs&, int32_t)>& visit) {
  for (const Positions& part : parts_of(context, reading)) {
    for (int at = 0; at < part.count; at += kTile) {
      const Positions tile{part.seen, part.first + at, std::min(kTile, part.count - at)};
      visit(probs_at(context, tile, layer, head_kv), tile.numbers().front());
    }
  }
}

size_t attention_tile_bytes(const PolicyContext& context, const Reading& reading, int layer,
                            int head_kv) {
  size_t most = 0;
  for (const Positions& part : parts_of(context, reading)) {
    const size_t own = part.seen.own_keys.empty() ? 0 : part.seen.positions.size();
    most = std::max(most, probs_bytes(context, size_t(context.cache.length(layer, head_kv)), own,
                                      std::min(kTile, part.count)));
  }
  return most;
}

}  // namespace pith
