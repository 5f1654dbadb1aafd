#include "model/weight_store.h"

#include <algorithm>
#include <cctype>
#include <functional>

#include "pith/error.hpp"

namespace pith {
namespace {

// Holds what tensors are, not their data.
ggml_context_ptr description_context(size_t tensors) {
  ggml_context_ptr context(ggml_init({ggml_tensor_overhead() * tensors, nullptr, true}));
  if (!context) throw Error(ErrorCode::memory, "no memory for the weights' descriptions");
  return context;
}

std::vector<ggml_backend_buffer_type_t> extra_buffer_types(ggml_backend_dev_t device) {
  const auto list =
      reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(ggml_backend_reg_get_proc_address(
          ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts"));
  std::vector<ggml_backend_buffer_type_t> types;
  if (list == nullptr) return types;
  for (auto* type = list(device); type != nullptr && *type != nullptr; ++type) {
    types.push_back(*type);
  }
  return types;
}

// Asks the device about a product of `stored`, held in `type`, with a batch of F32 columns.
bool runs_product(ggml_backend_dev_t device, ggml_backend_buffer_type_t type,
                  const ggml_tensor& stored) {
  constexpr int kColumns = 512;
  const ggml_context_ptr context = description_context(4);
  ggml_tensor* weight = ggml_dup_tensor(context.get(), &stored);
  ggml_tensor* columns = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, stored.ne[0], kColumns);
  const ggml_backend_buffer_ptr empty(ggml_backend_buft_alloc_buffer(type, 0));
  weight->buffer = empty.get();
  return ggml_backend_dev_supports_op(device, ggml_mul_mat(context.get(), weight, columns));
}

void dequantize(const std::byte* from, ggml_type type, float* to, int64_t count) {
  ggml_get_type_traits(type)->to_float(from, to, count);
}

std::string type_label(ggml_type type) {
  std::string label = ggml_type_name(type);
  std::transform(label.begin(), label.end(), label.begin(),
                 [](unsigned char c) { return char(std::toupper(c)); });
  return label;
}

}  // namespace

WeightStore::WeightStore(const GgufFile& file, const ModelOptions& options)
    : file_(file),
      options_(options),
      device_(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)) {
  if (device_ == nullptr)
    throw Error(ErrorCode::unsupported, "ggml was built without a CPU backend");
  if (options_.repack) repacked_types_ = extra_buffer_types(device_);
}

bool WeightStore::dequantized(const ggml_tensor& stored) const {
  return options_.dequantize_weights && stored.type != GGML_TYPE_F32;
}

ggml_backend_buffer_type_t WeightStore::choose(const ggml_tensor& stored, WeightUse use) const {
  if (dequantized(stored)) return ggml_backend_dev_buffer_type(device_);
  if (use != WeightUse::product) return nullptr;
  for (auto* type : repacked_types_) {
    if (runs_product(device_, type, stored)) return type;
  }
  return nullptr;
}

ggml_tensor* WeightStore::add(const ggml_tensor& stored, WeightUse use) {
  Pool& pool = pools_[choose(stored, use)];
  if (!pool.context) {
    pool.context = description_context(size_t(gguf_get_n_tensors(file_.header())));
  }
  for (const Placed& placed : pool.tensors) {
    if (placed.stored == &stored) return placed.tensor;
  }
  ggml_tensor* tensor =
      ggml_new_tensor(pool.context.get(), dequantized(stored) ? GGML_TYPE_F32 : stored.type,
                      ggml_n_dims(&stored), stored.ne);
  ggml_set_name(tensor, stored.name);
  pool.tensors.push_back({&stored, tensor});
  return tensor;
}

void WeightStore::load() {
  for (auto& [type, pool] : pools_) {
    if (type == nullptr) {
      map(pool);
    } else {
      copy(pool, type);
    }
    ggml_backend_buffer_set_usage(pool.buffer.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
  }
}

// One buffer over the whole file; a tensor's address says where in it it lies.
void WeightStore::map(Pool& pool) {
  const auto bytes = file_.bytes();
  // ggml has no read-only buffers; nothing writes to weights.
  pool.buffer.reset(ggml_backend_dev_buffer_from_host_ptr(
      device_, const_cast<std::byte*>(bytes.data()), bytes.size(), bytes.size()));
  if (!pool.buffer) throw Error(ErrorCode::memory, "no buffer over the mapped weights");
  for (const Placed& placed : pool.tensors) {
    auto* address = const_cast<std::byte*>(file_.data(*placed.stored).data());
    ggml_backend_tensor_alloc(pool.buffer.get(), placed.tensor, address);
    bytes_ += ggml_nbytes(placed.tensor);
  }
}

// Gives each source back to the system once copied, so that no weight is resident twice.
void WeightStore::copy(Pool& pool, ggml_backend_buffer_type_t type) {
  pool.buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(pool.context.get(), type));
  if (!pool.buffer) {
    throw Error(ErrorCode::memory, std::string("no memory for weights in ") +
                                       ggml_backend_buft_name(type) + " layout");
  }
  bytes_ += ggml_backend_buffer_get_size(pool.buffer.get());
  for (const Placed& placed : pool.tensors) {
    const auto source = file_.data(*placed.stored);
    if (dequantized(*placed.stored)) {
      dequantize(source.data(), placed.stored->type, ggml_get_data_f32(placed.tensor),
                 ggml_nelements(placed.tensor));
    } else {
      ggml_backend_tensor_set(placed.tensor, source.data(), 0, source.size());
    }
    file_.release(source);
  }
}

std::string WeightStore::place(ggml_backend_buffer_type_t type) const {
  if (type == nullptr) return "mapped";
  if (type == ggml_backend_dev_buffer_type(device_)) return "dequantized";
  return std::string("in ") + ggml_backend_buft_name(type);
}

std::string WeightStore::summary() const {
  std::map<std::pair<std::string, std::string>, int> counts;  // by type and place
  for (const auto& [type, pool] : pools_) {
    for (const Placed& placed : pool.tensors) {
      ++counts[{type_label(placed.tensor->type), place(type)}];
    }
  }
  std::multimap<int, std::string, std::greater<>> most_first;
  for (const auto& [kind, count] : counts) {
    most_first.emplace(count, kind.first + " x " + std::to_string(count) + " " + kind.second);
  }
  std::string line;
  for (const auto& [count, text] : most_first) line += (line.empty() ? "" : ", ") + text;
  return line;
}

}  // namespace pith
