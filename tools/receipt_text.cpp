#include "receipt_text.h"

#include "eval/text_table.h"

namespace pith::tools {
namespace {

std::string line(const std::string& name, const std::string& text) {
  return "  " + name + std::string(name.size() < 10 ? 10 - name.size() : 1, ' ') + text + "\n";
}

std::string seconds(const std::string& phase, double value) {
  return value > 0 ? phase + " " + fixed(value, value < 1 ? 3 : 1) + " s, " : std::string();
}

std::string times(const PhaseTimes& t) {
  std::string out = seconds("load", t.load) + seconds("prefill", t.prefill) +
                    seconds("observe", t.observe) + seconds("score", t.score) +
                    seconds("select", t.select) + seconds("apply", t.apply) +
                    seconds("decode", t.decode);
  return out.substr(0, out.size() - (out.empty() ? 0 : 2));
}

std::string before_after(int64_t before, int64_t after) {
  return bytes_text(double(before)) + " -> " + bytes_text(double(after));
}

std::string entries(const Receipt& r) {
  const double share =
      r.entries_full > 0 ? 100.0 * double(r.entries_kept) / double(r.entries_full) : 0;
  return grouped(r.entries_full) + " -> " + grouped(r.entries_kept) + " entries (" +
         fixed(share, 1) + "%), " + grouped(r.entries_protected) + " protected";
}

std::string speed(const Receipt& r) {
  return grouped(r.tokens_generated) + " tokens, " + fixed(r.decode_tok_s, 1) + " tok/s with " +
         std::to_string(r.threads) + " threads on " + r.backend;
}

std::string generation(const GenerationReceipt& g) {
  return g.policy + " every " + std::to_string(g.every) + " tokens, at most " + grouped(g.kept) +
         " generated entries a head in a " + std::string(kPoolNames[size_t(g.pool)]) +
         " pool: " + grouped(g.compressions) + " compressions evicted " +
         grouped(g.entries_evicted) + " entries";
}

std::string max_kl(const MaxKlReceipt& m) {
  std::string out = significant(m.asked, 3) + " asked, " + significant(m.measured, 3) + " at " +
                    m.budget + " over the last " + std::to_string(m.tokens) + " tokens";
  for (size_t i = 0; i < m.tried.size(); ++i) {
    out += (i == 0 ? "; tried " : ", ") + m.tried[i].budget + " " + significant(m.tried[i].kl, 3);
  }
  return out + (m.tried.empty() ? "" : ", in " + fixed(m.seconds, 1) + " s");
}

}  // namespace

std::string receipt_text(const Receipt& r) {
  std::string out =
      line("policy", r.policy + (r.budget_requested.empty() ? "" : " at " + r.budget_requested));
  out += line("cache", grouped(r.n_tokens) + " tokens: " + entries(r));
  out += line("bytes", before_after(r.bytes_full, r.bytes_kept) + ", resident " +
                           before_after(r.resident_full, r.resident_kept));
  if (r.max_kl) out += line("max KL", max_kl(*r.max_kl));
  if (!r.generation.policy.empty()) out += line("generated", generation(r.generation));
  out += line("time", times(r.time_s));
  out += line("decode", speed(r));
  out += line("memory", "peak RSS " + bytes_text(double(r.peak_rss_bytes)) + ", scoring scratch " +
                            bytes_text(double(r.scratch_peak)));
  for (const std::string& note : r.notes) out += line("note", note);
  return out;
}

}  // namespace pith::tools
