// Models on a GPU, over the emulation: grouped heads with a window, packed conversations, adapters on bases in blocks. Their
// losses are near the CPU's, with the same bits for every residency and order of the streams, and in exactly the planned bytes.
#include <algorithm>
#include <ostream>
#include <string>

#include "device/cuda/emulation_streams.h"
#include "models/decoder/decoder.h"
#include "run/chat_data.h"
#include "run/cuda_session.h"

namespace plimsoll {
namespace {

constexpr int kUpdates = 3;
constexpr std::int64_t kMicro = 2;

// Two heads of 64, which multiply on tensor cores in 16 bits, read one of keys and values.
Config windowed() {
  Config config = decoder_config(kMistral, 128, 2);
  config.model.config = config.model.config.with<DecoderConfig>([](DecoderConfig& model) { model.window = 7; });
  return config;
}

Config packed(Config config) {
  config.batch.packing = true;
  return config;
}

Config adapted(AdapterKind kind, BaseFormat base) {
  Config config = decoder_config(kLlama, 128, 4);
  config.adapter.kind = kind;
  config.adapter.rank = 4;
  config.adapter.dropout = 0.1;
  config.base = base;
  return config;
}

struct ModelCase {
  const char* name;
  Config (*config)();
};
void PrintTo(const ModelCase& each, std::ostream* out) { *out << each.name; }

const ModelCase kModels[] = {
    {"window", windowed},
    {"packed_window", [] { return packed(windowed()); }},
    {"packed_gpt2", [] { return packed(gpt2_config()); }},
    {"lora_nf4", [] { return adapted(AdapterKind::lora, BaseFormat::nf4); }},
    {"packed_lora_int8", [] { return packed(adapted(AdapterKind::lora, BaseFormat::int8)); }},
    {"dora_nf4", [] { return adapted(AdapterKind::dora, BaseFormat::nf4); }},
    {"dora_bf16", [] { return adapted(AdapterKind::dora, BaseFormat::bf16); }},
};

class CudaModels : public testing::TestWithParam<std::tuple<ModelCase, DType>> {
 protected:
  CudaModels() : config_(std::get<0>(GetParam()).config()) {
    cpu::set_thread_count(2);
    config_.precision.compute = std::get<1>(GetParam());
    if (config_.adapter.active()) config_.precision.parameters = config_.precision.compute;
  }
  ~CudaModels() override { cuda::emulation::draw_order(0); }

  Plan plan(const Machine& machine, BlockMode mode = BlockMode::keep, const Residency& residency = {}) const {
    return plan_with(config_, kMicro, {mode}, 1, facts_with_windows(config_, data_.files), residency, 1, machine);
  }
  static Residency elsewhere(Bytes near = Residency::kAllNear) {
    Residency residency{
        .pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = {.beyond = true}, .accumulators = {.beyond = true}};
    residency.near = near;
    return residency;
  }

  ChatData data_;
  Config config_;
};

TEST_P(CudaModels, TrainLikeTheCpu) {
  const Plan on_gpu = plan(round_gpu()), on_cpu = plan(round_machine());
  const Outcome gpu = CudaSession(config_, on_gpu, data_.files).train(kUpdates),
                cpu = Session(config_, on_cpu, data_.files).train(kUpdates);
  const double within = config_.precision.compute == DType::f32 ? 2e-5 : 2e-2;
  for (std::size_t i = 0; i < cpu.losses.size(); ++i) {
    const auto loss = std::bit_cast<double>(cpu.losses[i]);
    EXPECT_NEAR(std::bit_cast<double>(gpu.losses[i]), loss, within * loss) << i;
  }
}

TEST_P(CudaModels, HaveTheSameBitsInTenPlacementsAndOrdersOfStreams) {
  const Outcome resident = CudaSession(config_, plan(round_gpu()), data_.files).train(kUpdates);
  std::uint64_t seed = 0;
  for (const BlockMode mode : {BlockMode::keep, BlockMode::recompute}) {
    for (const Residency& residency :
         {Residency{}, elsewhere(), elsewhere(Bytes{0}), elsewhere(kKiB * 64), elsewhere(kKiB * 256)}) {
      cuda::emulation::draw_order(seed++);
      const Plan moved = plan(round_gpu(), mode, residency);
      SCOPED_TRACE(testing::Message() << static_cast<int>(mode) << " " << moved.stored[1].n << " " << moved.stored[2].n);
      EXPECT_EQ(CudaSession(config_, moved, data_.files, CudaPace{static_cast<std::uint8_t>(seed % 3)}).train(kUpdates),
                resident);
    }
  }
}

TEST_P(CudaModels, TouchExactlyThePlannedBytes) {
  for (const Residency& residency : {Residency{}, elsewhere(), elsewhere(Bytes{0})}) {
    const Plan audited = plan(round_gpu(), BlockMode::recompute, residency);
    EXPECT_EQ(audited_difference(config_, audited, data_.files), "");
  }
}

constexpr auto kName = [](const auto& each) {
  return std::string(std::get<0>(each.param).name) + "_" + std::string(name(std::get<1>(each.param)));
};
// Products of 16 bits run other kernels of attention, and round decoded matrices.
const ModelCase kNarrow[] = {kModels[1], kModels[3], kModels[5]};
INSTANTIATE_TEST_SUITE_P(Wide, CudaModels, testing::Combine(testing::ValuesIn(kModels), testing::Values(DType::f32)), kName);
INSTANTIATE_TEST_SUITE_P(Narrow, CudaModels, testing::Combine(testing::ValuesIn(kNarrow), testing::Values(DType::bf16)), kName);

}  // namespace
}  // namespace plimsoll
