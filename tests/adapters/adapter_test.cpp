// The rewrite of a graph, the choice of layers by name, and the accepted PEFT folders.
#include "adapters/adapter.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "adapters/modules.h"
#include "adapters/peft_folder.h"
#include "autodiff/training.h"
#include "formats/scratch_folder.h"
#include "models/all.h"
#include "models/gpt2/gpt2.h"
#include "plan/small_models.h"
#include "plan/units.h"
#include "weights/adapter_weights.h"

namespace plimsoll {
namespace {

const ModelShape kShape{3, 32, 4, 16, 101};

ModelGraph all_passes(const ModelConfig& model) {
  const BatchShape shape{.micro = 2,
                         .evaluate = 2,
                         .tokens = 16,
                         .generate = {.rows = 1, .prompt = 4, .slots = 8},
                         .forward = {.samples = 1, .rows = 4}};
  return model.family().build(model, shape, {.seed = 7});
}

AdapterSettings lora(std::vector<std::string> names = {}) {
  AdapterSettings settings;
  settings.kind = AdapterKind::lora;
  settings.rank = 4;
  if (!names.empty()) settings.targets = {ModuleSet::Kind::names, std::move(names)};
  return settings;
}

std::string code_of(const auto& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.code + " " + error.message;
  }
  return "";
}

TEST(Rewrite, ChangesEveryPass) {
  const ModelConfig model = config_for(kShape, 4).model.config;
  for (const AdapterKind kind : {AdapterKind::lora, AdapterKind::dora}) {
    ModelGraph graph = all_passes(model);
    AdapterSettings settings = lora({"c_attn", "mlp.c_proj"});
    settings.kind = kind;
    add_adapter(graph, model, settings, 7);
    std::map<std::string, int> sums;
    for (const Node& node : graph.graph.nodes) {
      if (node.op->name == "sum_paths") ++sums[std::string(graph.graph.name(node.section))];
    }
    EXPECT_EQ(sums, (std::map<std::string, int>{{"micro", 6}, {"evaluate", 6}, {"prefill", 6}, {"decode", 6}, {"forward", 6}}));
    int trained = 0;
    for (const ValueId id : graph.graph.parameters()) {
      const ParameterInfo& parameter = *graph.graph.values[id].parameter;
      EXPECT_EQ(parameter.kind == ParameterKind::frozen, !parameter.adapter) << graph.graph.values[id].name.text();
      trained += parameter.kind == ParameterKind::trained ? 1 : 0;
    }
    EXPECT_EQ(trained, 6 * (kind == AdapterKind::dora ? 3 : 2));
    EXPECT_EQ(block_count(find_units(graph.graph)), 3);
    EXPECT_EQ(adapted_layers(graph.graph, model, settings).size(), 6u);
  }
}

// Frozen matrices have no accumulators; below the lowest value that is trained there is no backward pass.
TEST(Rewrite, BackwardPassStopsBelowWhatIsTrained) {
  Config config = config_for(kShape, 4, 0);
  const auto lines_of_backward = [&] {
    const Graph graph = build_training_graph(config, kTrainAndValidate, 2).graph;
    std::set<std::string> lines;
    for (const Node& node : graph.nodes) {
      if (node.backward) lines.insert(node.line.text().substr(0, 3));
    }
    for (const ValueId id : graph.parameters()) {
      const Value& value = graph.values[id];
      EXPECT_EQ(graph.find(value.name.text() + ".grad").valid(), value.parameter->kind == ParameterKind::trained);
    }
    return lines;
  };
  EXPECT_TRUE(lines_of_backward().contains("h.0"));
  config.model.freeze = {"wte", "wpe", "h\\.[01]"};
  const std::set<std::string> some = lines_of_backward();
  EXPECT_TRUE(some.contains("h.2"));
  EXPECT_FALSE(some.contains("h.1") || some.contains("h.0") || some.contains("wte"));
  config.model.freeze.clear();
  config.adapter = lora({"1.mlp.c_fc"});
  const std::set<std::string> adapter = lines_of_backward();
  EXPECT_TRUE(adapter.contains("h.1") && adapter.contains("h.2"));
  EXPECT_FALSE(adapter.contains("h.0") || adapter.contains("wte"));
}

TEST(Freeze, SaysWhatItDoesNotFind) {
  Config config = config_for(kShape, 4);
  const auto freezing = [&](std::vector<std::string> patterns) {
    config.model.freeze = std::move(patterns);
    return code_of([&] { build_training_graph(config, kTrainAndValidate, 2); });
  };
  EXPECT_EQ(freezing({"h\\.0\\.mlp", ".*\\.bias"}), "");
  EXPECT_TRUE(freezing({"wte", "h\\.7"}).starts_with("E-FREEZE 'h\\.7'"));
  EXPECT_TRUE(freezing({".*"}).starts_with("E-FREEZE all"));
  EXPECT_TRUE(freezing({"("}).starts_with("E-ADAPTER-PATTERN"));
}

TEST(Targets, AreWhatPeftMeans) {
  const ModelConfig model = config_for(kShape, 4).model.config;
  const auto adapted = [&](ModuleSet targets, std::vector<std::string> excluded = {}) {
    ModelGraph graph = all_passes(model);
    AdapterSettings settings = lora();
    settings.targets = std::move(targets);
    settings.excluded = std::move(excluded);
    add_adapter(graph, model, settings, 7);
    std::string text;
    for (const AdaptedLayer& layer : adapted_layers(graph.graph, model, settings)) text += layer.in_modules + " ";
    return text;
  };
  using enum ModuleSet::Kind;
  EXPECT_EQ(adapted({names, {"h.1.attn.c_proj"}}), "transformer.h.1.attn.c_proj ");
  EXPECT_EQ(adapted({names, {"transformer.h.1.attn.c_proj", "c_fc"}}, {"0.mlp.c_fc"}),
            "transformer.h.1.attn.c_proj transformer.h.1.mlp.c_fc transformer.h.2.mlp.c_fc ");
  EXPECT_EQ(adapted({expression, {".*\\.[02]\\.attn\\.c_attn"}}), "transformer.h.0.attn.c_attn transformer.h.2.attn.c_attn ");
  const std::string all = adapted({});
  EXPECT_EQ(std::ranges::count(all, ' '), 12);
  const auto fault = [&](ModuleSet targets) { return code_of([&] { adapted(std::move(targets)); }); };
  EXPECT_TRUE(fault({names, {"attn.c_fc"}}).starts_with("E-ADAPTER-TARGET no layer is called 'attn.c_fc'"));
  EXPECT_TRUE(fault({names, {"c_fc", "lm_head"}}).starts_with("E-ADAPTER-TARGET lm_head is no linear layer"));
  EXPECT_TRUE(fault({names, {"wpe"}}).starts_with("E-ADAPTER-TARGET transformer.wpe"));
  EXPECT_TRUE(fault({expression, {"c_attn"}}).starts_with("E-ADAPTER-TARGET no layer"));
  EXPECT_TRUE(fault({expression, {"*"}}).starts_with("E-ADAPTER-PATTERN"));
}

TEST(Settings, RankAndScaleByPattern) {
  AdapterSettings settings = lora();
  settings.rank = 16, settings.alpha = 32;
  settings.rank_pattern = {{"attn\\..*", 4}, {"c_proj", 2}};
  settings.alpha_pattern = {{"h.1.mlp.c_fc", 8}};
  EXPECT_EQ(settings.rank_of("transformer.h.0.attn.c_proj"), 4);
  EXPECT_EQ(settings.rank_of("transformer.h.0.mlp.c_proj"), 2);
  EXPECT_EQ(settings.rank_of("transformer.h.0.mlp.xc_proj"), 16);
  EXPECT_EQ(settings.scale_of("transformer.h.0.attn.c_attn"), 8);
  EXPECT_EQ(settings.scale_of("transformer.h.1.mlp.c_fc"), 0.5);
  settings.rs = true;
  EXPECT_EQ(settings.scale_of("transformer.h.0.attn.c_attn"), 16);
}

TEST(ModulesToSave, ATiedTableHasTwoNames) {
  const ModelConfig model = config_for(kShape, 4).model.config;
  const auto saved = [&](std::vector<std::string> modules) {
    ModelGraph graph = all_passes(model);
    AdapterSettings settings = lora({"c_fc"});
    settings.modules_to_save = std::move(modules);
    const std::string fault = code_of([&] { add_adapter(graph, model, settings, 7); });
    if (!fault.empty()) return fault;
    std::string text;
    for (const AdapterTensor& tensor : adapter_tensors(graph.graph, model)) {
      if (!tensor.name.ends_with("lora_A.weight") && !tensor.name.ends_with("lora_B.weight")) text += tensor.name + " ";
    }
    return text;
  };
  EXPECT_EQ(saved({}), "");
  EXPECT_EQ(saved({"ln_f"}), "base_model.model.transformer.ln_f.weight base_model.model.transformer.ln_f.bias ");
  EXPECT_EQ(saved({"wte", "lm_head"}), "base_model.model.transformer.wte.weight base_model.model.lm_head.weight ");
  EXPECT_TRUE(saved({"lm_head"}).starts_with("E-ADAPTER-TIED"));
  EXPECT_TRUE(saved({"wte"}).starts_with("E-ADAPTER-TIED"));
  EXPECT_TRUE(saved({"norm"}).starts_with("E-ADAPTER-SAVE"));
  EXPECT_TRUE(saved({"0.mlp.c_fc"}).starts_with("E-ADAPTER-SAVE"));
}

class PeftFolder : public testing::Test {
 protected:
  std::string read(const std::string& keys) {
    std::ofstream(folder_ / kAdapterConfig) << "{\"peft_type\": \"LORA\", \"target_modules\": [\"c_fc\"], \"r\": 4" << keys
                                            << "}";
    return code_of([&] { adapter_ = read_peft_folder(folder_.path()); });
  }
  ScratchFolder folder_;
  PeftAdapter adapter_;
};

TEST_F(PeftFolder, SaysWhatTheAdapterIs) {
  EXPECT_EQ(
      read(R"(, "lora_alpha": 24, "use_rslora": true, "use_dora": true, "lora_dropout": 0.25, "rank_pattern": {"b": 2, "a": 3},
    "modules_to_save": ["ln_f"], "base_model_name_or_path": "/base", "bias": "none", "layers_pattern": "", "loftq_config": {},
    "trainable_token_indices": null, "init_lora_weights": "gaussian", "exclude_modules": ["h.0.mlp.c_fc"])"),
      "");
  const AdapterSettings& settings = adapter_.settings;
  EXPECT_EQ(settings.kind, AdapterKind::dora);
  EXPECT_TRUE(settings.rs);
  EXPECT_EQ(settings.rank, 4);
  EXPECT_EQ(settings.alpha, 24);
  EXPECT_EQ(settings.dropout, 0.25);
  EXPECT_EQ(settings.rank_pattern, (std::vector<PatternNumber>{{"b", 2}, {"a", 3}}));
  EXPECT_EQ(settings.modules_to_save, std::vector<std::string>{"ln_f"});
  EXPECT_EQ(settings.excluded, std::vector<std::string>{"h.0.mlp.c_fc"});
  EXPECT_EQ(adapter_.base, "/base");
  EXPECT_TRUE(code_of([&] { base_of(adapter_); }).starts_with("E-ADAPTER-BASE its base, /base, is not there"));
}

TEST_F(PeftFolder, RefusesByNameWhatIsNotComputed) {
  for (const char* feature :
       {R"("lora_bias": true)", R"("layers_to_transform": [1])", R"("layers_pattern": "h")", R"("trainable_token_indices": [5])",
        R"("target_parameters": ["mlp.experts.gate_up_proj"])", R"("bias": "all")", R"("init_lora_weights": "pissa")",
        R"("init_lora_weights": "olora")", R"("use_qalora": true)", R"("layer_replication": [[0, 2]])",
        R"("alora_invocation_tokens": [1])", R"("megatron_config": {"a": 1})", R"("exclude_modules": ".*")",
        R"("velora_config": {"rank": 1})", R"("something_new": 3)"}) {
    const std::string name = std::string(feature).substr(1, std::string(feature).find('"', 1) - 1);
    EXPECT_TRUE(read(", " + std::string(feature)).starts_with("E-ADAPTER-FEATURE " + name)) << feature;
  }
  EXPECT_TRUE(read(R"(, "peft_type": "IA3")").starts_with("E-ADAPTER-FEATURE peft_type"));
  EXPECT_TRUE(read(R"(, "r": 0)").starts_with("E-ADAPTER-FEATURE r"));
  EXPECT_TRUE(read(",,").starts_with("E-ADAPTER-FOLDER"));
}

}  // namespace
}  // namespace plimsoll
