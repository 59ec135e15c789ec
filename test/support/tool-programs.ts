/* The smallest programs that call a provider, one for each language whose page in docs/guides/clients/ shows it. */

/** Prints what `https://api.openai.com/v1/chat/completions` answers. */
export const TOOL_PROGRAMS = {
  node: `const answer = await fetch('https://api.openai.com/v1/chat/completions', {
  method: 'POST',
  headers: { Authorization: 'Bearer ' + process.env.OPENAI_API_KEY, 'Content-Type': 'application/json' },
  body: JSON.stringify({ model: 'gpt-4o-mini', messages: [{ role: 'user', content: 'Say hello.' }] }),
});
console.log(await answer.text());
`,
  python: `import os, sys
client = __import__(sys.argv[1])
answer = client.post("https://api.openai.com/v1/chat/completions",
    headers={"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]},
    json={"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Say hello."}]})
print(answer.text)
`,
  go: `package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
)

func main() {
	body := strings.NewReader(\`{"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Say hello."}]}\`)
	request, _ := http.NewRequest("POST", "https://api.openai.com/v1/chat/completions", body)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	request.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	text, _ := io.ReadAll(answer.Body)
	fmt.Println(string(text))
}
`,
  java: `import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

public class Call {
  public static void main(String[] args) throws Exception {
    String body = "{\\"model\\": \\"gpt-4o-mini\\", \\"messages\\": [{\\"role\\": \\"user\\", \\"content\\": \\"Say hello.\\"}]}";
    HttpRequest request = HttpRequest.newBuilder(URI.create("https://api.openai.com/v1/chat/completions"))
        .header("Authorization", "Bearer " + System.getenv("OPENAI_API_KEY"))
        .header("Content-Type", "application/json")
        .POST(HttpRequest.BodyPublishers.ofString(body))
        .build();
    System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
  }
}
`,
} as const;
