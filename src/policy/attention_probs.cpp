#include "policy/attention_probs.h"

#include <Eigen/Core>
#include <algorithm>
#include <limits>
#include <numeric>

#include "policy/future.h"
#include "policy/rotate.h"

namespace pith {

namespace {

using Matrix = KeyMatrix;
using MatrixMap = Eigen::Map<Matrix>;
using MatrixConstMap = Eigen::Map<const Matrix>;

/// Positions that each_attention_tile takes at a time.
constexpr int kTile = 64;
/// Keys that are multiplied at a time.
constexpr Eigen::Index kKeys = 256;
/// Positions between the prompt and the first query of Source::future.
constexpr int32_t kFutureGap = 16;

/// Queries of an observation, each with the position it asks from: its own, or another that it is
/// turned to.
struct Asking {
  const Observation& seen;
  std::vector<int> places;         ///< in `seen`, ascending
  std::vector<int32_t> positions;  ///< ascending
  bool turned = false;             ///< positions are not those of `seen`

  int count() const { return int(places.size()); }
  Asking part(int first, int n) const {
    return {seen,
            {places.begin() + first, places.begin() + first + n},
            {positions.begin() + first, positions.begin() + first + n},
            turned};
  }
};

/// All queries, from where they were seen.
Asking all_of(const Observation& seen) {
  Asking out{.seen = seen, .places = std::vector<int>(seen.positions.size()), .positions = {}};
  std::iota(out.places.begin(), out.places.end(), 0);
  out.positions = seen.positions;
  return out;
}

Asking last_of(const PolicyContext& context, int count) {
  const Asking all = all_of(context.seen);
  const int m = observed_count(context, count);
  return all.part(all.count() - m, m);
}

Asking first_of(const Observation& seen, int count) {
  const Asking all = all_of(seen);
  return all.part(0, std::min(count, all.count()));
}

/// Queries of the prompt from its second eighth on, moved behind it in their order.
Asking future_of(const PolicyContext& context) {
  const int32_t n = context.cache.next_position();
  Asking out{.seen = *context.future, .places = {}, .positions = {}, .turned = true};
  out.places = nearest_places(context.future->positions, future_positions(n));
  out.positions.resize(out.places.size());
  std::iota(out.positions.begin(), out.positions.end(), n + kFutureGap);
  return out;
}

/// Turns queries [count * group, head_dim] to the positions they ask from.
void turn_ahead(const Rotation& rotation, const Asking& at, int group, Matrix& queries) {
  for (Eigen::Index row = 0; row < queries.rows(); ++row) {
    const auto t = size_t(row / group);
    const int32_t seen = at.seen.positions[size_t(at.places[t])];
    turn(rotation, double(at.positions[t] - seen), queries.row(row));
  }
}

/// Queries of a group, scaled [count * group, head_dim].
Matrix scaled_queries(const PolicyContext& context, const Asking& at, int layer, int head_kv) {
  const ModelShape& shape = context.cache.shape();
  const int group = shape.group();
  const float* query = at.seen.query.at(size_t(layer)).data();
  Matrix out(Eigen::Index{at.count()} * group, shape.head_dim);
  for (int t = 0; t < at.count(); ++t) {
    const Eigen::Index head = Eigen::Index{at.places[size_t(t)]} * shape.n_head + head_kv * group;
    out.middleRows(Eigen::Index{t} * group, group) =
        Eigen::Map<const Matrix>(query + head * shape.head_dim, group, shape.head_dim);
  }
  if (at.turned) turn_ahead(context.weights.rotation(layer), at, group, out);
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

  void see(MatrixMap logits, std::span<const int> first, std::span<const float> log_weights) {
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

/// Rows of one KV head in an observation's own keys or values [count, head_dim]: those up to the
/// last place of `at`; none where they are in the cache.
Matrix own_rows(const PolicyContext& context, const Asking& at,
                const std::vector<std::vector<float>>& own, int layer, int head_kv) {
  if (own.empty()) return {};
  const Eigen::Index d = context.cache.shape().head_dim;
  const auto all = Eigen::Index(at.seen.positions.size());
  const float* rows = own.at(size_t(layer)).data() + head_kv * all * d;
  return Eigen::Map<const Matrix>(rows, at.places.back() + 1, d);
}

/// The row's first keys times the queries, [keys, queries] into `logits`, some keys at a time,
/// which `softmax` sees while they are in the processor's caches.
void multiply_keys(const PolicyContext& context, const Matrix& queries, int layer, int head_kv,
                   std::span<const int> first, MatrixMap& logits, Softmax& softmax) {
  const auto log_weights = context.cache.log_weights(layer, head_kv);
  Matrix keys(std::min<Eigen::Index>(kKeys, logits.rows()), queries.cols());
  for (Eigen::Index at = 0; at < logits.rows(); at += kKeys) {
    const Eigen::Index count = std::min<Eigen::Index>(kKeys, logits.rows() - at);
    context.cache.keys(layer, head_kv, int(at), {keys.data(), size_t(count * keys.cols())});
    MatrixMap some(logits.row(at).data(), count, logits.cols());
    some.noalias() = keys.topRows(count) * queries.transpose();
    softmax.see(some, first.subspan(size_t(at)),
                log_weights.subspan(std::min(log_weights.size(), size_t(at))));
  }
}

AttentionProbs probs_at(const PolicyContext& context, const Asking& at, int layer, int head_kv,
                        bool outputs) {
  const int group = context.cache.shape().group();
  const auto entries = context.cache.positions(layer, head_kv);
  AttentionProbs out;
  out.positions = at.positions;
  out.rows = at.count() * group;
  if (at.count() == 0) return out;
  out.entries = int(std::ranges::upper_bound(entries, at.positions.back()) - entries.begin());
  out.alpha.resize(size_t(out.entries) * size_t(out.rows));

  const Matrix queries = scaled_queries(context, at, layer, head_kv);
  MatrixMap logits(out.alpha.data(), out.entries, out.rows);
  const auto first = first_rows(entries.first(size_t(out.entries)), at.positions, group);
  Softmax softmax(out.rows);
  multiply_keys(context, queries, layer, head_kv, first, logits, softmax);

  const Matrix own = own_rows(context, at, at.seen.own_keys, layer, head_kv);
  Matrix own_product(own.rows(), out.rows);
  if (own.rows() > 0) own_product.noalias() = own * queries.transpose();
  MatrixMap own_logits(own_product.data(), own_product.rows(), own_product.cols());
  const auto own_first =
      first_rows(std::span(at.seen.positions).first(size_t(own.rows())), at.positions, group);

  softmax.see(own_logits, own_first, {});
  softmax.exponentiate(logits, first);
  softmax.exponentiate(own_logits, own_first);
  softmax.divide(logits);
  if (outputs && own.rows() > 0) {
    softmax.divide(own_logits);
    out.own_output.resize(size_t(out.rows) * size_t(own.cols()));
    MatrixMap(out.own_output.data(), out.rows, own.cols()).noalias() =
        own_logits.transpose() * own_rows(context, at, at.seen.own_values, layer, head_kv);
  }
  return out;
}

size_t probs_bytes(const PolicyContext& context, size_t entries, size_t own, int positions,
                   bool outputs) {
  const ModelShape& shape = context.cache.shape();
  const auto rows = size_t(positions) * size_t(shape.group());
  const auto d = size_t(shape.head_dim);
  // Probabilities, keys, first seeing row of each; queries (twice while they are scaled).
  const size_t floats = (entries + own) * (rows + d + 1) + 2 * rows * d;
  const size_t output_floats = outputs && own > 0 ? (own + rows) * d : 0;  // own values, product
  return sizeof(float) * (floats + output_floats);
}

/// The observations that a reading goes through.
std::vector<Asking> parts_of(const PolicyContext& context, const Reading& reading) {
  std::vector<Asking> out;
  switch (reading.source) {
    case Source::tail:
      out.push_back(last_of(context, reading.count));
      break;
    case Source::prompt:
      if (context.prompt != nullptr) out.push_back(all_of(*context.prompt));
      break;
    case Source::future:
      if (context.future != nullptr) out.push_back(future_of(context));
      break;
    case Source::repeat:
      for (const Observation& part : context.repeat) out.push_back(all_of(part));
      break;
    case Source::lookahead:
      if (context.lookahead != nullptr) out.push_back(first_of(*context.lookahead, reading.count));
      break;
  }
  return out;
}

}  // namespace

int observed_count(const PolicyContext& context, int count) {
  return std::min(count, int(context.seen.positions.size()));
}

size_t attention_probs_bytes(const PolicyContext& context, int layer, int head_kv, int count) {
  return probs_bytes(context, size_t(context.cache.length(layer, head_kv)), 0,
                     observed_count(context, count), false);
}

AttentionProbs attention_probs(const PolicyContext& context, int layer, int head_kv, int count) {
  return probs_at(context, last_of(context, count), layer, head_kv, false);
}

Needs Reading::needs() const {
  switch (source) {
    case Source::tail:
      return {.tail = count};
    case Source::prompt:
      return {.prompt = true};
    case Source::future:
      return {.future = true};
    case Source::repeat:
      return {.repeat = true};
    case Source::lookahead:
      return {.tail = 1, .lookahead = count};
  }
  return {};
}

int64_t Reading::positions(const PolicyContext& context, const std::string& reader) const {
  int64_t total = 0;
  for (const Asking& part : parts_of(context, *this)) total += part.count();
  if (total == 0) {
    throw Error(ErrorCode::usage, reader + " needs observed positions: observe part of the prompt");
  }
  return total;
}

void each_attention_tile(const PolicyContext& context, const Reading& reading, int layer,
                         int head_kv, const std::function<void(AttentionProbs&&)>& visit) {
  for (const Asking& part : parts_of(context, reading)) {
    for (int at = 0; at < part.count(); at += kTile) {
      const Asking tile = part.part(at, std::min(kTile, part.count() - at));
      visit(probs_at(context, tile, layer, head_kv, reading.outputs));
    }
  }
}

int attention_tiles(const PolicyContext& context, const Reading& reading) {
  int tiles = 0;
  for (const Asking& part : parts_of(context, reading)) tiles += (part.count() + kTile - 1) / kTile;
  return tiles;
}

size_t attention_tile_bytes(const PolicyContext& context, const Reading& reading, int layer,
                            int head_kv) {
  const auto entries = size_t(context.cache.length(layer, head_kv));
  size_t most = 0, places = 0;
  for (const Asking& part : parts_of(context, reading)) {
    const size_t own = part.seen.own_keys.empty() ? 0 : part.seen.positions.size();
    const int positions = std::min(kTile, part.count());
    most = std::max(most, probs_bytes(context, entries, own, positions, reading.outputs));
    places += size_t(part.count()) * (sizeof(int) + sizeof(int32_t));
  }
  return most + places;
}

KeyMatrix outputs_of(const AttentionProbs& tile, const KeyMatrix& values) {
  const MatrixConstMap alpha(tile.alpha.data(), tile.entries, tile.rows);
  KeyMatrix out(tile.rows, values.cols());
  out.noalias() = alpha.transpose() * values.topRows(tile.entries);
  if (!tile.own_output.empty())
    out += MatrixConstMap(tile.own_output.data(), out.rows(), out.cols());
  return out;
}

void raise_to_most(const AttentionProbs& tile, std::span<float> most) {
  for (int i = 0; i < tile.entries; ++i) {
    const auto first = tile.alpha.begin() + ptrdiff_t(i) * tile.rows;
    most[size_t(i)] = std::max(most[size_t(i)], *std::max_element(first, first + tile.rows));
  }
}

}  // namespace pith
