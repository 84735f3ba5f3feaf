#include "weights/merge.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>

#include "adapters/peft_folder.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/inference.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "config/config.h"
#include "device/cpu/parallel.h"
#include "device/machine_facts.h"
#include "formats/weights_folder.h"

namespace plimsoll {
namespace {

std::optional<DType> type_of(const std::string& name) {
  if (name.empty()) return {};
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    if (name == precision_name(type)) return type;
  }
  throw config_error("E-USAGE", "--type", fmt::format("it is '{}'", name), "fp32, bf16 or fp16");
}

const char* of(bool adapter) { return adapter ? "adapter" : "base"; }

std::string lost_by(const MergeResult& result) {
  const std::string sums =
      result.rounded ? fmt::format("the sums are rounded to {}; --type fp32 keeps them", name(result.type)) : "";
  if (result.blocks.empty()) return sums;
  const std::string blocks = fmt::format("the base is stored in blocks ({}), and the merged model is not", result.blocks);
  return sums.empty() ? blocks : blocks + "; " + sums;
}

}  // namespace

int run_merge(const MergeArguments& arguments) {
  MergeRequest request{{},
                       weights_folder(arguments.adapter),
                       arguments.out,
                       type_of(arguments.type),
                       load_base_format(arguments.changes, "merge")};
  say_best(arguments.adapter);
  say_best(arguments.weights);
  const PeftAdapter adapter = read_peft_folder(request.adapter);
  request.base = arguments.weights.empty() ? base_of(adapter) : weights_folder(arguments.weights);
  cpu::set_thread_count(usable_cores());
  const MergeResult result = merge_adapter(request);
  if (result.untied) say_line("note: the trained head is a tensor of its own now, and tie_word_embeddings is false");
  if (const std::string lost = lost_by(result); !lost.empty()) say_line("note: " + lost);
  if (result.companions.other_template) say_line("note: the chat template is that of the adapter, not that of the base");
  if (arguments.json) {
    const nlohmann::json object = {{"schema", "plimsoll.merge/1"},
                                   {"base", request.base.string()},
                                   {"adapter", request.adapter.string()},
                                   {"out", request.out.string()},
                                   {"layers", result.layers},
                                   {"replaced", result.replaced},
                                   {"untied", result.untied},
                                   {"rounded", result.rounded},
                                   {"blocks", result.blocks},
                                   {"tokenizer", of(result.companions.tokenizer)},
                                   {"chat_template", of(result.companions.chat_template)}};
    print_json(object);
  } else {
    print_text(fmt::format("wrote {}: {} with {} layers changed by {}\n", request.out.string(), request.base.string(),
                           result.layers, request.adapter.string()));
  }
  return 0;
}

}  // namespace plimsoll
