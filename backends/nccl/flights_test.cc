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

class FlightsTest : public ::testing::Test {
 protected:
  // An operation that has not ended.
  void TakeOne() {
    operation_.end = end_.get();
    end_->Expect();
    flights_.Take(operation_, comm::MakeHeader(operation_, 0, 2));
  }

  const std::unique_ptr<device::Device> device_ = device::MakeCpuDevice();
  const std::unique_ptr<device::Event> end_ = device_->MakeEvent();
  Flights flights_{*device_};
  comm::Operation operation_;
};

TEST_F(FlightsTest, AreSeenWhileAnEndWaitsForRoomInTheStreamsQueue) {
  TakeOne();
  FullStream stream(*device_, flights_);
  flights_.Begin(stream);
  EXPECT_TRUE(stream.seen());
  flights_.Issue(stream);
  EXPECT_TRUE(stream.seen()) << "the watchdog would have waited, too";
  EXPECT_EQ(stream.passed(), nullptr) << "it has not ended";
  EXPECT_EQ(flights_.OldestPassed(/*all=*/false), &operation_);
  flights_.DropOldest();
  EXPECT_TRUE(flights_.empty());
}

// It may be long from there to its end: one of many segments is queued little by little.
TEST_F(FlightsTest, HaveBegunWhereTheDeviceHasComePastTheStartAndTheEndIsNotRecorded) {
  TakeOne();
  EXPECT_EQ(flights_.OldestPassed(/*all=*/false), nullptr);
  EXPECT_FALSE(flights_.oldest()->began) << "an event that was never recorded is done";
  const auto stream = device_->MakeStream(device::StreamKind::kCommunication);
  flights_.Begin(*stream);
  EXPECT_EQ(flights_.OldestPassed(/*all=*/false), nullptr);
  EXPECT_TRUE(flights_.oldest()->began);
}

// Whoever has waited for an operation takes its label back, before the watchdog has seen it end.
TEST_F(FlightsTest, SayWhatTheyAreWithoutTheCallersLabel) {
  std::string label = "h.3";
  operation_.label = label;
  flights_.Take(operation_, comm::MakeHeader(operation_, 0, 2));
  label = "...";
  EXPECT_EQ(std::string_view(flights_.oldest()->header.label.data()), "h.3");
}

}  // namespace
}  // namespace zeroshard::backends
