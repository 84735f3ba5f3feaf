// Weights from a folder and back into one: names, types, files and bits stay.
#include "weights/weights.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <bit>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "formats/atomic_file.h"
#include "formats/expect_error.h"
#include "formats/file.h"
#include "formats/weight_files.h"
#include "formats/weight_index.h"
#include "models/all.h"
#include "run/session.h"
#include "tensor/half.h"

namespace plimsoll {
namespace {

constexpr ModelShape kSmall{2, 16, 2, 8, 40};

// The bits of an element of a stored type. Conversion to fp32 rounds none of them.
std::uint32_t element_bits(DType dtype, std::uint32_t draw) {
  if (dtype == DType::f32)
    return std::bit_cast<std::uint32_t>(0.02f * static_cast<float>(static_cast<std::int32_t>(draw)) * 0x1p-31f);
  const float small = 0.02f * static_cast<float>(static_cast<std::int32_t>(draw)) * 0x1p-31f;
  return dtype == DType::bf16 ? narrow_bf16(small) : narrow_f16(small);
}

struct Tensor {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::string bytes = {};
};

std::string bytes_of(const Tensor& tensor, std::uint32_t seed) {
  std::string bytes;
  for (std::int64_t i = 0; i < tensor.shape.elements(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    const std::uint32_t bits = element_bits(tensor.dtype, seed);
    bytes.append(reinterpret_cast<const char*>(&bits), static_cast<std::size_t>(size_of(tensor.dtype)));
  }
  return bytes;
}

void write_tensors(const std::filesystem::path& file, const std::vector<Tensor>& tensors) {
  std::vector<TensorSpec> specs;
  for (const Tensor& tensor : tensors) specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  SafetensorsWriter writer(file, specs);
  for (const Tensor& tensor : tensors) writer.append(tensor.name, std::as_bytes(std::span(tensor.bytes)));
  writer.commit();
}

// File, type and bytes by name.
using Stored = std::map<std::string, std::tuple<std::string, DType, std::string>>;

Stored stored_in(const std::filesystem::path& folder) {
  Stored stored;
  const WeightFiles files = WeightFiles::open(folder);
  for (std::size_t i = 0; i < files.files().size(); ++i) {
    EXPECT_EQ(files.files()[i].metadata().at("format"), "pt");
    for (const StoredTensor& tensor : files.files()[i].tensors()) {
      std::string bytes(static_cast<std::size_t>(tensor.bytes), '\0');
      files.files()[i].read_into(tensor, std::as_writable_bytes(std::span(bytes)));
      stored[tensor.name] = {files.names()[i], *tensor.dtype, bytes};
    }
  }
  return stored;
}

class Weights : public testing::Test {
 protected:
  Weights() {
    config_.train.micro_batch = 2;
    config_.train.accumulation = 2;
    config_.model.config.family().write(config_.model.config, source_);
    for (const ValueId id : graph().parameters()) {
      const Value& value = graph().values[id];
      tensors_.push_back({"transformer." + std::string(value.name.text()), DType::f32, value.type.shape});
    }
  }
  const Graph& graph() {
    if (!plan_) {
      OpCatalogue catalogue = round_catalogue();
      const GraphSource source = [&](std::int64_t micro) { return build_training_graph(config_, data_.facts(), micro).graph; };
      PlanSpace space(source, plan_request(config_), round_machine(), catalogue);
      plan_.emplace(std::get<Plan>(space.best({space.ceiling(), {}, {}})));
    }
    return plan_->graph;
  }
  // Each third tensor in the second file; types in turn.
  void write_source(const std::vector<DType>& types) {
    std::vector<Tensor> files[2];
    WeightIndex index{{"model-a.safetensors", "model-b.safetensors"}, {}};
    std::int64_t total = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i].dtype = types[i % types.size()];
      tensors_[i].bytes = bytes_of(tensors_[i], static_cast<std::uint32_t>(i));
      files[i % 3 == 2 ? 1 : 0].push_back(tensors_[i]);
      index.places.emplace_back(tensors_[i].name, i % 3 == 2 ? 1 : 0);
      total += std::ssize(tensors_[i].bytes);
    }
    for (int i = 0; i < 2; ++i) write_tensors(source_ / index.files[static_cast<std::size_t>(i)], files[i]);
    write_raw(source_ / kWeightsIndex, weight_index_text(index, total));
    config_.model.init = source_;
  }
  Session session() { return {config_, *plan_, data_.files}; }
  nlohmann::json saved_config() const { return nlohmann::json::parse(read_raw(out_ / "config.json")); }
  void write_config_key(const char* key, const char* value) const {
    nlohmann::json json = nlohmann::json::parse(read_raw(source_ / "config.json"));
    json[key] = value;
    write_raw(source_ / "config.json", json.dump());
  }

  TokenData data_{kSmall.vocab, 400, 0};
  Config config_ = config_for(kSmall, 4);
  ScratchFolder folder_;
  std::filesystem::path source_ = [this] {
    std::filesystem::create_directory(folder_ / "in");
    return folder_ / "in";
  }();
  std::filesystem::path out_ = folder_ / "out";
  std::optional<Plan> plan_;
  std::vector<Tensor> tensors_;
};

TEST_F(Weights, InAndOutUntrainedIsTheSame) {
  const std::vector<std::vector<DType>> all{
      {DType::bf16}, {DType::f16}, {DType::f32}, {DType::f32, DType::bf16, DType::f16, DType::bf16}};
  for (const std::vector<DType>& types : all) {
    write_source(types);
    Session session = this->session();
    session.trainer().load(nullptr);
    session.trainer().save_weights_to(out_);
    EXPECT_EQ(stored_in(out_), stored_in(source_));
    const nlohmann::json index = nlohmann::json::parse(read_raw(out_ / kWeightsIndex));
    EXPECT_EQ(index, nlohmann::json::parse(read_raw(source_ / kWeightsIndex)));
    const WeightsBytes bytes = weights_bytes(graph(), config_.model.config, layout_of(graph(), config_.model.config, source_));
    EXPECT_EQ(bytes.all, weights_in(out_));
    EXPECT_EQ(bytes.largest.n, static_cast<std::int64_t>(std::filesystem::file_size(out_ / "model-a.safetensors")));
    const char* const words[] = {"bfloat16", "float16", "float32"};
    if (types.size() == 1) EXPECT_EQ(saved_config().at("torch_dtype"), words[&types - all.data()]);
  }
}

TEST_F(Weights, TrainedOnesAreRounded) {
  write_source({DType::bf16, DType::f32});
  config_.optimizer.learning_rate = 1e-2;
  Session session = this->session();
  session.trainer().load(nullptr);
  session.trainer().update();
  session.trainer().save_weights_to(out_);
  const Stored before = stored_in(source_), after = stored_in(out_);
  std::size_t changed = 0;
  for (const Tensor& tensor : tensors_) {
    const auto& [file, dtype, bytes] = after.at(tensor.name);
    EXPECT_EQ(file, std::get<0>(before.at(tensor.name)));
    EXPECT_EQ(dtype, tensor.dtype);
    changed += bytes != tensor.bytes;
    std::vector<float> exact;
    session.executor().read(graph().find(tensor.name.substr(std::string("transformer.").size())),
                            [&](std::span<const std::byte> part) {
                              const std::size_t at = exact.size();
                              exact.resize(at + part.size() / sizeof(float));
                              std::memcpy(&exact[at], part.data(), part.size());
                            });
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(exact[i]);
      std::uint32_t stored = 0;
      std::memcpy(&stored, bytes.data() + i * static_cast<std::size_t>(size_of(dtype)), static_cast<std::size_t>(size_of(dtype)));
      ASSERT_EQ(stored, dtype == DType::f32 ? bits : narrow_bf16(exact[i])) << tensor.name << " " << i;
    }
  }
  EXPECT_GT(changed, tensors_.size() / 2);
}

// The text of a layout, which a resumed run reads if the source is gone.
TEST_F(Weights, TheLayoutIsKeptAsText) {
  write_source({DType::f32, DType::bf16});
  const WeightLayout layout = layout_of(graph(), config_.model.config, source_);
  EXPECT_EQ(layout.files, (std::vector<std::string>{"model-a.safetensors", "model-b.safetensors"}));
  const std::string text = layout_text(graph(), layout);
  write_raw(folder_ / "stored.json", text);
  EXPECT_EQ(read_layout(graph(), folder_ / "stored.json"), layout);
  EXPECT_EQ(layout_text(graph(), {}), "");
  const auto refused = [&](const std::function<void(nlohmann::json&)>& change, const char* fragment) {
    nlohmann::json json = nlohmann::json::parse(text);
    change(json);
    write_raw(folder_ / "stored.json", json.dump());
    EXPECT_ERROR(read_layout(graph(), folder_ / "stored.json"), "E-RUN-STORED", fragment);
  };
  refused([](auto& json) { json["schema"] = "plimsoll.stored/2"; }, "another version");
  refused([](auto& json) { json["files"][0] = "../x.safetensors"; }, "a file is ../x.safetensors");
  refused([](auto& json) { json["files"][0] = "config.json"; }, "a file is config.json");
  refused([](auto& json) { json["files"].push_back("c.safetensors"); }, "a file has no parameter");
  refused([](auto& json) { json["index"] = false; }, "files have no index");
  refused([](auto& json) { json["parameters"].erase("wte.weight"); }, "wte.weight");
  refused([](auto& json) { json["parameters"]["wte.weight"]["file"] = 2; }, "file 2 of 2");
  refused([](auto& json) { json["parameters"]["wte.weight"]["type"] = "F8"; }, "a type is F8");
  refused([](auto& json) { json["parameters"]["wte.weight"]["name"] = "transformer.wpe.weight"; }, "two parameters are");
  write_raw(folder_ / "stored.json", "{");
  EXPECT_ERROR(read_layout(graph(), folder_ / "stored.json"), "E-RUN-STORED", "stored.json");
}

TEST_F(Weights, NewOnesAreOneFile) {
  config_.model.init.clear();
  static_cast<void>(graph());
  Session session = this->session();
  session.trainer().load(nullptr);
  session.trainer().save_weights_to(out_);
  const Stored stored = stored_in(out_);
  EXPECT_EQ(stored.size(), tensors_.size());
  EXPECT_EQ(std::get<0>(stored.at("wte.weight")), kWeightsFile);
  EXPECT_EQ(std::get<1>(stored.at("wte.weight")), DType::f32);
  EXPECT_EQ(saved_config().at("torch_dtype"), "float32");
  EXPECT_EQ(weights_bytes(graph(), config_.model.config, {}).all, weights_in(out_));
}

TEST_F(Weights, OtherFilesStayAndOldShardsGo) {
  write_source({DType::f32});
  std::filesystem::create_directories(out_);
  write_raw(out_ / "vocab.json", "{}");
  write_raw(out_ / "model-00001-of-00003.safetensors", "old");
  write_raw(out_ / "config.json", R"({"of_another_tool": 1})");
  Session session = this->session();
  session.trainer().load(nullptr);
  session.trainer().save_weights_to(out_);
  EXPECT_EQ(read_raw(out_ / "vocab.json"), "{}");
  EXPECT_FALSE(std::filesystem::exists(out_ / "model-00001-of-00003.safetensors"));
  EXPECT_EQ(saved_config().at("of_another_tool"), 1);
  // Averages get the files of the folder of weights.
  session.trainer().save_weights_to(folder_ / "averages", {.averages = true, .beside = out_});
  EXPECT_EQ(read_raw(folder_ / "averages/vocab.json"), "{}");
  EXPECT_EQ(stored_in(folder_ / "averages"), stored_in(source_));
}

TEST_F(Weights, TheTypeIsSaidUnderTheKeyThatIsThere) {
  write_config_key("dtype", "float32");
  write_source({DType::bf16});
  std::filesystem::create_directories(out_);
  std::filesystem::copy_file(source_ / "config.json", out_ / "config.json");
  Session session = this->session();
  session.trainer().load(nullptr);
  session.trainer().save_weights_to(out_);
  EXPECT_EQ(saved_config().at("dtype"), "bfloat16");
  EXPECT_FALSE(saved_config().contains("torch_dtype"));
  // For weights of several types, the folder's key stays.
  write_config_key("dtype", "float16");
  write_source({DType::bf16, DType::f32});
  std::filesystem::copy_file(source_ / "config.json", out_ / "config.json", std::filesystem::copy_options::overwrite_existing);
  session.trainer().load(nullptr);
  session.trainer().save_weights_to(out_);
  EXPECT_EQ(saved_config().at("dtype"), "float16");
}

TEST_F(Weights, ATiedHeadIsCompared) {
  Tensor head = tensors_.front();
  ASSERT_EQ(head.name, "transformer.wte.weight");
  for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].bytes = bytes_of(tensors_[i], static_cast<std::uint32_t>(i));
  head.name = "lm_head.weight";
  head.bytes = tensors_.front().bytes;
  std::vector<Tensor> both = tensors_;
  both.push_back(head);
  config_.model.init = source_;
  write_tensors(source_ / kWeightsFile, both);
  {
    Session session = this->session();
    session.trainer().load(nullptr);
    session.trainer().save_weights_to(out_);
    const Stored stored = stored_in(out_);
    EXPECT_EQ(stored.size(), tensors_.size()) << "the second one goes";
    EXPECT_EQ(std::get<2>(stored.at("transformer.wte.weight")), head.bytes);
  }
  // -0 equals 0, and the same number in another type is equal.
  std::vector<Tensor> narrow = both;
  for (Tensor* tensor : {&narrow.front(), &narrow.back()}) tensor->bytes = std::string(tensor->bytes.size(), '\0');
  narrow.back().bytes[3] = '\x80';
  write_tensors(source_ / kWeightsFile, narrow);
  EXPECT_NO_THROW(check_weights(graph(), config_.model.config, source_));
  narrow.back().dtype = DType::bf16;
  narrow.back().bytes.resize(narrow.back().bytes.size() / 2);
  write_tensors(source_ / kWeightsFile, narrow);
  EXPECT_NO_THROW(check_weights(graph(), config_.model.config, source_));
  // The last element differs.
  both.back().bytes.back() ^= 1;
  write_tensors(source_ / kWeightsFile, both);
  Session session = this->session();
  EXPECT_ERROR(session.trainer().load(nullptr), "E-FORMAT-TIE",
               "transformer.wte.weight and lm_head.weight are one parameter and differ: at [39, 15]");
  EXPECT_ERROR(check_weights(graph(), config_.model.config, source_), "E-FORMAT-TIE", "tie_word_embeddings");
  // A head with another shape.
  both.back().shape = Shape{20, 32};
  write_tensors(source_ / kWeightsFile, both);
  EXPECT_ERROR(check_weights(graph(), config_.model.config, source_), "E-FORMAT-WEIGHTS", "lm_head.weight is (20, 32)");
  // The head alone stands for both, and keeps its name.
  tensors_.front().name = "lm_head.weight";
  write_tensors(source_ / kWeightsFile, tensors_);
  Session alone = this->session();
  alone.trainer().load(nullptr);
  alone.trainer().save_weights_to(out_);
  EXPECT_EQ(stored_in(out_), stored_in(source_));
}

TEST_F(Weights, AFailedSaveLeavesTheOldFolder) {
  write_source({DType::bf16});
  Session session = this->session();
  session.trainer().load(nullptr);
  session.trainer().save_weights_to(out_);
  const Stored before = stored_in(out_);
  session.trainer().update();
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4000, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  EXPECT_ERROR(session.trainer().save_weights_to(out_), "E-IO-WRITE", "model-a.safetensors");
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, handler);
  EXPECT_EQ(stored_in(out_), before);
  std::size_t left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) left += is_partial(entry.path());
  EXPECT_EQ(left, 0u);
}

}  // namespace
}  // namespace plimsoll
