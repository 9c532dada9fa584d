import CConsole
import HTTPTypes
import NIOCore
import SyncHTTP

/// `/console` and the paths below it: the files of the operator's console, which are part of the program.
///
/// The files require no token because they contain no data. The console requests its data from `/admin`.
struct ConsoleEndpoint: Sendable {
    /// A file, ready to be sent.
    struct File: Sendable {
        let content: ByteBuffer
        let tag: EntityTag
        let type: String
    }

    static let index = "index.html"
    private static let types = [
        "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8",
        "svg": "image/svg+xml", "json": "application/json", "webmanifest": "application/manifest+json",
    ]

    let files: [String: File]

    init() {
        var files: [String: File] = [:]
        for index in 0..<console_asset_count() {
            let asset = console_asset_at(index)
            let bytes = Array(UnsafeBufferPointer(start: asset.bytes, count: asset.length))
            let name = String(cString: asset.name)
            let ending = name.split(separator: ".").last.map(String.init) ?? ""
            files[name] = File(
                content: ByteBuffer(bytes: bytes),
                tag: EntityTag(of: bytes),
                type: Self.types[ending] ?? "application/octet-stream"
            )
        }
        self.files = files
    }

    /// Returns a file by its name. A name without a dot is the path of one of the console's pages, and returns
    /// `index.html`.
    func read(_ exchange: Exchange) async throws -> Answer {
        let path = exchange.parameters.first.map(String.init) ?? ""
        let name = path.contains(".") ? path : Self.index
        guard let file = files[name] else { throw Refusal.notFound }
        var answer = Answer(.ok, sharedJSON: file.content)
        answer.contentType = file.type
        if file.tag.isAmong(exchange.headers[.ifNoneMatch]) { answer = Answer(.notModified) }
        answer.headers[.eTag] = file.tag.text
        // without this header, the browser's Back button would show a stored page with all of its data
        answer.headers[.cacheControl] = name == Self.index ? "no-store" : "no-cache"
        answer.headers[.referrerPolicy] = "no-referrer"
        answer.headers[.crossOriginOpenerPolicy] = "same-origin"
        return answer
    }
}
