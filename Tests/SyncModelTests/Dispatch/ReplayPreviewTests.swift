import Foundation
import JSONText
import Testing

@testable import SyncModel

@Suite struct ReplayPreviewTests {
    private static let company = UUID(uuid: (6, 6, 6, 6, 6, 6, 0x46, 6, 0x86, 6, 6, 6, 6, 6, 6, 6))

    private static func story(_ sample: Sample) -> ReplayPreview? {
        ReplayPreview(of: sample.mutation, sample.surroundings, now: Sample.now)
    }

    private static func update() -> Sample {
        var sample = Sample.of(.update)
        sample.payload = #"{"company":"\#(company.lowercased)","all":[1,{"a/b":"\#(company.lowercased)"}],"n":1.50}"#
        sample.references = [company]
        sample.mappings = [
            company: [
                DispatchPlanner.ResolvedID(entityType: "company", serverID: ServerID(text: "12", isInteger: true))
            ]
        ]
        return sample
    }

    @Test func `contains the request that is sent`() throws {
        let sample = Self.update()
        let (story, request) = (try #require(Self.story(sample)), try #require(sample.request))
        #expect(story.request.method == "PATCH" && story.request.path == "/contacts/7")
        #expect(story.request.body == request.body)
        #expect(story.idempotencyKey == request.idempotencyKey)
        #expect(story.baseURL == "http://upstream.invalid")
        let body = String(decoding: story.request.body ?? [], as: UTF8.self)
        #expect(body == #"{"company":12,"all":[1,{"a/b":12}],"n":1.50}"#)
    }

    @Test func `lists the rewritten ids with their pointers`() throws {
        let story = try #require(Self.story(Self.update()))
        let places = story.rewritten.map { "\($0.pointer) \($0.clientID.text) \($0.serverID.text) \($0.entityType)" }
        let name = Self.company.lowercased
        let own = "endpoint \(Sample.local.lowercased) 7 contact"
        #expect(places == [own, "/company \(name) 12 company", "/all/1/a~1b \(name) 12 company"])
    }

    @Test func `lists a limited number of places, with pointers of limited length`() throws {
        var sample = Self.update()
        let name = String(repeating: "n", count: 10_000)
        let ids = Array(repeating: #""\#(Self.company.lowercased)""#, count: 3_000).joined(separator: ",")
        sample.payload = #"{"\#(name)":[\#(ids)]}"#
        let rewritten = try #require(Self.story(sample)).rewritten
        #expect(rewritten.count == ReplayPreview.placeLimit)
        #expect(rewritten.allSatisfy { $0.pointer.utf8.count <= ErrorBounds.pointer })
        #expect(rewritten.last?.pointer.hasSuffix("…") == true)
    }

    @Test func `marks the entity's own id in the path`() throws {
        var sample = Sample.of(.update)
        sample.client = .id(Sample.local)
        let rewritten = try #require(Self.story(sample)).rewritten
        #expect(rewritten.map(\.pointer) == ["endpoint"])
        #expect(rewritten[0].clientID == ServerID(Sample.local) && rewritten[0].serverID.text == "7")
    }

    @Test func `unmapped ids stay and are not marked`() throws {
        var sample = Self.update()
        sample.references = []
        sample.mappings = [:]
        let story = try #require(Self.story(sample))
        #expect(!story.rewritten.contains { $0.pointer != "endpoint" })
        #expect(String(decoding: story.request.body ?? [], as: UTF8.self).contains(Self.company.lowercased))
    }

    @Test func `a final mutation's references, which are no longer stored, are found in its content`() throws {
        var sample = Self.update()
        sample.references = []
        let mutation = sample.mutation.recalling(sample.mappings)
        let story = try #require(ReplayPreview(of: mutation, sample.surroundings, now: Sample.now))
        #expect(story.rewritten.filter { $0.pointer != "endpoint" }.count == 2)
        #expect(Set(sample.mutation.namedIDs(in: sample.surroundings.type)).contains(Self.company))
    }

    @Test func `a mutation that is not forwarded has no request`() {
        var sample = Self.update()
        sample.isForwarded = false
        #expect(Self.story(sample) == nil)
        sample = Self.update()
        sample.upstream = nil
        #expect(Self.story(sample) == nil)
    }

    @Test func `a mutation that waits for its retry has a request`() {
        var sample = Self.update()
        sample.nextRetryAt = Sample.now.adding(seconds: 60)
        #expect(Self.story(sample) != nil)
    }

    // MARK: - As a command

    @Test func `a shell runs the command unchanged`() throws {
        var sample = Sample()
        sample.payload = #"{"name":"O'Hara $(rm -rf /) `x` \\ \"y\""}"#
        sample.upstream = UpstreamSettings(baseURL: "http://upstream.invalid", credential: .bearer("s3cret"))
        let story = try #require(Self.story(sample))
        let text = CurlCommand(story).text
        #expect(text.hasPrefix("curl -X POST 'http://upstream.invalid/contacts' "))
        #expect(!text.contains("s3cret") && !text.lowercased().contains("authorization"))
        // the shell passes the body unchanged, byte for byte
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", "curl() { for a; do b=$a; done; printf %s \"$b\"; }; " + text]
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        #expect(Array(output) == story.request.body)
    }

    @Test func `a delete has no body`() throws {
        let text = CurlCommand(try #require(Self.story(.of(.delete)))).text
        #expect(text.hasPrefix("curl -X DELETE 'http://upstream.invalid/contacts/7'") && !text.contains("--data"))
    }
}
