#include "zeroshard/backends/nccl/flights.h"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "gtest/gtest.h"
#include "zeroshard/device/cpu/cpu_device.h"

namespace zeroshard::backends {
namespace {

// A stream whose queue is full when an event is to be recorded: somebody else looks at the flights meanwhile.
class FullStream final : public device::Stream {
 public:
  FullStream(device::Device& device, Flights& flights)
      : flights_(flights), stream_(device.MakeStream(device::StreamKind::kCommunication)) {}

  device::Device& device() override { return stream_->device(); }
  device::StreamKind kind() const override { return stream_->kind(); }
  void Record(device::Event& event) override {
    look_ = std::async(std::launch::async, [this] {
      passed_ = flights_.OldestPassed(/*all=*/false);
      return flights_.oldest().has_value();
    });
    seen_ = look_.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
    stream_->Record(event);
  }
  void Wait(const device::Event& event) override { stream_->Wait(event); }
  void Synchronize() override { stream_->Synchronize(); }
  void Enqueue(const device::Operation& operation) override { stream_->Enqueue(operation); }

  bool seen() { return seen_ && look_.get(); }
  comm::Operation* passed() const { return passed_; }

 private:
  Flights& flights_;
  const std::unique_ptr<device::Stream> stream_;
  std::future<bool> look_;
  bool seen_ = false;
  comm::Operation* passed_ = nullptr;
};

TEST(Flights, AreSeenWhileAnEndWaitsForRoomInTheStreamsQueue) {
  const auto device = device::MakeCpuDevice();
  Flights flights(*device);
  const auto end = device->MakeEvent();
  comm::Operation operation;
  operation.end = end.get();
  end->Expect();
  flights.Take(operation, comm::MakeHeader(operation, 0, 2));
  FullStream stream(*device, flights);
  flights.Begin(stream);
  EXPECT_TRUE(stream.seen());
  flights.Issue(stream);
  EXPECT_TRUE(stream.seen()) << "the watchdog would have waited, too";
  EXPECT_EQ(stream.passed(), nullptr) << "it has not ended";
  EXPECT_EQ(flights.OldestPassed(/*all=*/false), &operation);
  flights.DropOldest();
  EXPECT_TRUE(flights.empty());
}

// It may be long from there to its end: one of many segments is queued little by little.
TEST(Flights, HaveBegunWhereTheDeviceHasComePastTheStartAndTheEndIsNotRecorded) {
  const auto device = device::MakeCpuDevice();
  Flights flights(*device);
  const auto end = device->MakeEvent();
  comm::Operation operation;
  operation.end = end.get();
  end->Expect();
  flights.Take(operation, comm::MakeHeader(operation, 0, 2));
  EXPECT_EQ(flights.OldestPassed(/*all=*/false), nullptr);
  EXPECT_FALSE(flights.oldest()->began) << "an event that was never recorded is done";
  const auto stream = device->MakeStream(device::StreamKind::kCommunication);
  flights.Begin(*stream);
  EXPECT_EQ(flights.OldestPassed(/*all=*/false), nullptr);
  EXPECT_TRUE(flights.oldest()->began);
}

// Whoever has waited for an operation takes its label back, before the watchdog has seen it end.
TEST(Flights, SayWhatTheyAreWithoutTheCallersLabel) {
  const auto device = device::MakeCpuDevice();
  Flights flights(*device);
  comm::Operation operation;
  std::string label = "h.3";
  operation.label = label;
  flights.Take(operation, comm::MakeHeader(operation, 0, 2));
  label = "...";
  EXPECT_EQ(std::string_view(flights.oldest()->header.label.data()), "h.3");
}

}  // namespace
}  // namespace zeroshard::backends
