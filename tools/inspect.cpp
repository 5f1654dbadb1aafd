#include <iostream>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "eval/receipt_json.h"
#include "eval/text_table.h"
#include "options.h"
#include "session/session.h"

namespace pith::tools {
namespace {

using Json = nlohmann::ordered_json;

struct InspectSettings {
  ModelSettings model;
  std::string positional;
  bool json = false;
};

/// Cache bytes that one token takes before compression, with the default types.
size_t bytes_per_token(const ModelShape& shape) {
  const SessionOptions options;
  const CacheGeometry geometry{.n_layer = shape.n_layer,
                               .n_head_kv = shape.n_head_kv,
                               .head_dim = shape.head_dim,
                               .k_type = options.k_type,
                               .v_type = options.v_type,
                               .n_ctx = 1};
  return size_t(shape.n_rows()) * (geometry.entry_bytes() + sizeof(int32_t));
}

Json inspect_json(const Model& model) {
  const ModelWeights& weights = *model.impl()->weights;
  const ModelConfig& config = weights.config();
  const ModelShape& s = config.shape;
  return {{"path", weights.path()},
          {"name", config.name},
          {"architecture", config.architecture},
          {"n_layer", s.n_layer},
          {"n_head", s.n_head},
          {"n_head_kv", s.n_head_kv},
          {"head_dim", s.head_dim},
          {"n_embd", s.n_embd},
          {"n_ff", config.n_ff},
          {"n_vocab", s.n_vocab},
          {"n_ctx_train", config.n_ctx_train},
          {"rope_freq_base", config.rope.freq_base},
          {"weights", weights.storage()},
          {"weight_bytes", weights.bytes()},
          {"bytes_per_token", bytes_per_token(s)},
          {"chat_template", model.impl()->vocab->has_chat_template()},
          {"attention", kAttentionPathNames},
          {"kv_types", kKvTypeNames}};
}

void print_lines(const Json& fields) {
  for (const auto& [name, value] : fields.items()) {
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (name == "weight_bytes" || name == "bytes_per_token") {
      text += " (" + bytes_text(value.get<double>()) + ")";
    }
    std::cout << name << std::string(18 - name.size(), ' ') << text << "\n";
  }
}

void inspect(InspectSettings settings) {
  if (!settings.positional.empty()) settings.model.path = settings.positional;
  const Json fields = inspect_json(load_model(settings.model));
  if (settings.json) {
    std::cout << json_text(fields);
  } else {
    print_lines(fields);
  }
}

}  // namespace

void add_inspect(CLI::App& tool) {
  auto settings = std::make_shared<InspectSettings>();
  CLI::App& command = add_command(tool, "inspect", "Show what a GGUF file holds and pith supports",
                                  [settings] { inspect(*settings); });
  command.add_option("MODEL", settings->positional, "GGUF file");
  add_model_options(command, settings->model);
  command.add_flag("--json", settings->json, "as JSON");
}

}  // namespace pith::tools
