#include "eval/receipt_json.h"

#include <nlohmann/json.hpp>

namespace pith {
namespace {

using Json = nlohmann::ordered_json;

Json times(const PhaseTimes& t) {
  return {{"load", t.load},     {"prefill", t.prefill}, {"observe", t.observe}, {"score", t.score},
          {"select", t.select}, {"apply", t.apply},     {"decode", t.decode}};
}

Json layers(const std::vector<std::vector<int>>& kept) {
  Json out = Json::array();
  for (size_t layer = 0; layer < kept.size(); ++layer) {
    out.push_back({{"layer", layer}, {"kind", "global"}, {"kept", kept[layer]}});
  }
  return out;
}

Json generation(const GenerationReceipt& g) {
  return {{"policy", g.policy},
          {"kept", g.kept},
          {"every", g.every},
          {"window", g.window},
          {"pool", kPoolNames[size_t(g.pool)]},
          {"compressions", g.compressions},
          {"entries_evicted", g.entries_evicted}};
}

Json max_kl(const MaxKlReceipt& m) {
  Json tried = Json::array();
  for (const TriedBudget& t : m.tried) tried.push_back({{"budget", t.budget}, {"kl", t.kl}});
  return {{"asked", m.asked},   {"measured", m.measured}, {"budget", m.budget},
          {"tokens", m.tokens}, {"seconds", m.seconds},   {"tried", tried}};
}

}  // namespace

Json to_json(const Receipt& receipt) {
  Json out{{"policy", receipt.policy},
           {"budget_requested", receipt.budget_requested},
           {"n_tokens", receipt.n_tokens},
           {"entries_full", receipt.entries_full},
           {"entries_kept", receipt.entries_kept},
           {"entries_protected", receipt.entries_protected},
           {"bytes_full", receipt.bytes_full},
           {"bytes_kept", receipt.bytes_kept},
           {"resident_full", receipt.resident_full},
           {"resident_kept", receipt.resident_kept},
           {"scratch_peak", receipt.scratch_peak},
           {"per_layer", layers(receipt.kept)},
           {"time_s", times(receipt.time_s)},
           {"tokens_generated", receipt.tokens_generated},
           {"decode_tok_s", receipt.decode_tok_s},
           {"peak_rss_bytes", receipt.peak_rss_bytes},
           {"threads", receipt.threads},
           {"backend", receipt.backend},
           {"version", receipt.version},
           {"commit", receipt.commit},
           {"notes", receipt.notes}};
  if (!receipt.generation.policy.empty()) out["generation"] = generation(receipt.generation);
  if (receipt.max_kl) out["max_kl"] = max_kl(*receipt.max_kl);
  return out;
}

Json to_json(const Machine& machine) {
  return {{"cpu", machine.cpu}, {"cores", machine.cores}, {"os", machine.os}};
}

std::string json_text(const Json& json) {
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace pith
