/*
 * Prompts that the weights of the estimate have never seen, written for judging it. Do not fit anything to them: what
 * is fitted to belongs into token-estimate.test.ts, and a kind of text that comes out badly here is a reason to add
 * more of that kind there.
 */

/** Texts by kind. */
export const HELD_OUT: Readonly<Record<string, string>> = {
  'English letter': `Dear Ms Okafor, thank you for calling us about the boiler on the third floor. Our technician, Raj, looked at it on Tuesday afternoon and found that the pressure valve had been fitted upside down; he has ordered a new one, which ought to be here by Friday. Until then, please keep the thermostat below eighteen degrees, and don't hesitate to ring if the humming noise comes back. We're sorry about the trouble and won't charge you for either visit.`,
  'English, technical': `When the leader loses its quorum it must stop acknowledging writes before its lease expires, otherwise a newly elected leader could accept conflicting entries. The follower compares the term of each AppendEntries message with its own, truncates uncommitted suffixes that disagree, and only then persists the batch. Snapshots are installed atomically: a half-received snapshot is thrown away when the connection drops.`,
  French: `Bonjour, je vous écris au sujet de la facture du mois dernier : elle mentionne deux nuits d'hôtel alors que nous n'en avons passé qu'une seule à Besançon. Pourriez-vous vérifier et, le cas échéant, nous rembourser la différence ? Par ailleurs, nous aimerions réserver à nouveau pour la première semaine de février, de préférence une chambre calme côté jardin, avec petit-déjeuner compris.`,
  Spanish: `Mañana por la mañana llegan los albañiles, así que habría que vaciar la cocina esta misma tarde. He hablado con el señor Ibáñez y dice que el presupuesto incluye los azulejos, pero no la instalación eléctrica; ¿podrías llamar tú al electricista? Si el tiempo acompaña, terminarán antes de que empiecen las vacaciones de los niños.`,
  Portuguese: `A reunião de condomínio foi adiada para quinta-feira porque o síndico está doente. Na pauta constam a pintura da fachada, a troca do portão da garagem e a situação dos moradores inadimplentes. Quem não puder comparecer deve enviar uma procuração assinada até as dezoito horas de quarta-feira.`,
  'German, long words': `Das Bundesministerium für Verkehr überarbeitet die Straßenverkehrszulassungsordnung und plant eine Geschwindigkeitsbegrenzung für Elektrokleinstfahrzeuge auf Gehwegen. Der Grundstückseigentümer haftet für die Verkehrssicherungspflicht auch dann, wenn er einen Winterdienst beauftragt hat; eine Haftpflichtversicherung ist empfehlenswert, aber nicht vorgeschrieben.`,
  Polish: `Szanowni Państwo, w załączeniu przesyłam poprawiony harmonogram prac remontowych. Ze względu na opóźnienia w dostawach okien rozpoczniemy dopiero w przyszły poniedziałek, a zakończymy najpóźniej dwudziestego trzeciego października. Proszę o potwierdzenie, że klucze będą dostępne u dozorcy.`,
  Turkish: `Geçen hafta satın aldığım çamaşır makinesi çalışmıyor; ekranda sürekli aynı hata görünüyor. Müşteri hizmetlerinizi üç kez aradım ama kimse geri dönmedi. Lütfen en kısa sürede bir teknisyen gönderin veya ücretimi iade edin, çünkü evde küçük çocuklarımız var.`,
  Finnish: `Tiedotamme, että taloyhtiömme vesikatkos alkaa torstaiaamuna kello seitsemän ja kestää todennäköisesti iltapäivään saakka. Asukkaita pyydetään varaamaan juomavettä etukäteen sekä sulkemaan pesukoneiden hanat. Lisätietoja antaa isännöitsijä Mäkeläinen.`,
  Vietnamese: `Chào chị, em muốn hỏi về chuyến tàu từ Đà Nẵng đi Huế vào sáng thứ bảy tuần này. Nếu còn chỗ ngồi cạnh cửa sổ thì chị giữ giúp em hai vé nhé. Em sẽ thanh toán khi đến quầy, và nhờ chị cho biết có được mang theo xe đạp hay không.`,
  Ukrainian: `Доброго дня! Повідомляємо, що ваше замовлення надійшло до відділення й чекатиме на вас сім днів. Щоб отримати посилку, назвіть номер телефону та останні чотири цифри накладної. Якщо ви хочете перенаправити її до іншого міста, зателефонуйте нам до вісімнадцятої години.`,
  Greek: `Καλησπέρα σας, θα ήθελα να κλείσω ένα τραπέζι για έξι άτομα το Σάββατο το βράδυ, κατά προτίμηση στη βεράντα. Ένας από την παρέα δεν τρώει γλουτένη, οπότε θα μας βοηθούσε να μας στείλετε από πριν τον κατάλογο.`,
  Hebrew: `שלום רב, אני פונה אליכם בנוגע לדירה שפורסמה אתמול ברחוב הרצל. האם היא עדיין פנויה, ומתי אפשר לבוא לראות אותה? אנחנו זוג עם ילדה קטנה, ומחפשים חוזה לשנתיים לפחות.`,
  Hindi: `नमस्ते, मेरी ट्रेन आज तीन घंटे देर से चल रही है, इसलिए मैं शाम की बैठक में समय पर नहीं पहुँच पाऊँगा। कृपया सभी को बता दें कि हम कल सुबह दस बजे मिलेंगे, और पिछले महीने की रिपोर्ट की एक प्रति भी साथ ले आएँ।`,
  Thai: `สวัสดีค่ะ ดิฉันอยากสอบถามเรื่องการซ่อมเครื่องปรับอากาศในห้องนอน ตอนนี้มีน้ำหยดและเสียงดังมาก ช่างจะเข้ามาดูได้วันไหนคะ ถ้าเป็นไปได้ขอเป็นช่วงบ่ายวันพุธ`,
  Korean: `안녕하세요, 지난주에 주문한 책상이 아직 도착하지 않았습니다. 배송 조회를 해 보니 물류 센터에서 이틀째 움직이지 않고 있네요. 이번 주 금요일까지 받을 수 있는지 확인 부탁드리고, 어렵다면 주문을 취소하고 싶습니다.`,
  'Chinese, traditional': `您好，我們下個月要搬到新的辦公室，想請貴公司估算搬運費用。大約有三十張桌子、兩台影印機和一些文件櫃，電梯只能在晚上八點以後使用。麻煩您先來現場看看，再告訴我們需要幾個工作天。`,
  'Japanese, katakana': `新しいプロジェクトのキックオフミーティングは来週の火曜日に変更になりました。プレゼンテーションのスライドとスケジュールのドラフトを月曜日の昼までにアップロードしてください。リモートで参加する方はマイクのテストもお願いします。`,
  'Go and SQL': `func (s *Store) Sweep(ctx context.Context, before time.Time) (int64, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback()
	res, err := tx.ExecContext(ctx, \`DELETE FROM sessions WHERE expires_at < $1 AND pinned = FALSE\`, before)
	if err != nil {
		return 0, err
	}
	n, _ := res.RowsAffected()
	return n, tx.Commit()
}

SELECT c.region, COUNT(DISTINCT o.id) AS orders, ROUND(SUM(l.qty * l.unit_price), 2) AS revenue
FROM customers c
JOIN orders o ON o.customer_id = c.id AND o.cancelled_at IS NULL
JOIN order_lines l USING (order_id)
WHERE o.created_at >= DATE '2026-01-01'
GROUP BY 1 HAVING COUNT(*) > 10 ORDER BY revenue DESC LIMIT 25;
`,
  'HTML and CSS': `<section class="hero hero--wide" id="top">
  <h1 data-i18n="welcome.title">Welcome back, <span class="hero__name">{{ user.firstName }}</span>!</h1>
  <a href="/account/settings?tab=billing&ref=hero" class="btn btn-primary" aria-label="Open settings">Settings</a>
</section>
<style>
.hero--wide { display: grid; grid-template-columns: minmax(12rem, 1fr) 2fr; gap: 1.25rem; padding: 2rem clamp(1rem, 5vw, 4rem); }
.btn-primary:hover { background-color: #1a73e8; box-shadow: 0 1px 3px rgba(0, 0, 0, .24); }
</style>
`,
  'Rust and shell': `impl<T: Clone + Send + 'static> Cache<T> {
    pub fn get_or_insert_with<F>(&mut self, key: &str, make: F) -> Arc<T> where F: FnOnce() -> T {
        self.map.entry(key.to_owned()).or_insert_with(|| Arc::new(make())).clone()
    }
}

#!/usr/bin/env bash
set -euo pipefail
for f in "$1"/*.log.gz; do
  zcat -- "$f" | awk -F'\\t' '$7 >= 500 { print $1, $3 }' | sort | uniq -c | sort -rn | head -n 20 > "\${f%.log.gz}.top"
done
`,
  'JSON, indented': JSON.stringify(
    {
      deployment: {
        name: 'billing-worker',
        replicas: 4,
        image: 'registry.example.net/billing:2.17.3',
        resources: { cpu: '500m', memory: '768Mi' },
      },
      env: [
        { name: 'QUEUE_URL', value: 'amqp://queue.internal:5672/jobs' },
        { name: 'MAX_RETRIES', value: '5' },
        { name: 'FEATURE_NEW_TAX', value: 'false' },
      ],
      probes: { liveness: { path: '/healthz', periodSeconds: 10 }, readiness: { path: '/ready', failureThreshold: 3 } },
    },
    null,
    2,
  ),
  'CSV of numbers': `station,lat,lon,elevation_m,t_min,t_max,rain_mm
BRN-014,46.94809,7.44744,553,-3.2,4.9,12.4
ZRH-002,47.37689,8.54169,408,-1.7,6.1,8.05
GVA-031,46.20439,6.14316,375,0.4,7.8,15.62
LUG-009,46.00367,8.95105,273,2.9,11.3,0.0
BSL-027,47.55959,7.58857,260,-0.8,6.6,9.91
`,
  'identifiers and hashes': `commit 9f3c1e07ab52d4486c0f97e2d1b8a35c6e4470fd\nrequest 3e7a9c44-51d2-4b0e-9a6f-c81f20d7e5b3 -> 0x7ffeefbff5c8\nsha256:4d7f2a90c3be18f65e0b91d84aa6c7325f8e3019bd64c27aa1f05e83976b2cd1\nAKIAEXAMPLE7Q2ZL5VXN eu-central-1 arn:aws:iam::123456789012:role/ci-deploy\n`,
  'web addresses': `https://www.example.org/en/products/garden-chairs?color=dark-green&sort=price_asc&page=3\nhttps://maps.example.com/@52.5200066,13.404954,17.25z/data=!3m1!1e3\nhttps://docs.example.dev/v2/api-reference/webhooks#retry-behaviour\nmailto:orders+urgent@example.co.uk?subject=Order%20%2348213%20delayed\n`,
  Markdown: `## Release checklist

- [x] Bump the version in \`package.json\`
- [ ] Run the **full** test matrix (Linux, macOS, Windows)
- [ ] Ask @maria to proof-read the *migration guide*

| Step | Owner | Due |
|:-----|:-----:|----:|
| Freeze | Jun | 14 Oct |
| Tag | Ilse | 17 Oct |

> **Note:** the old endpoint answers \`410 Gone\` from now on.
`,
  'whitespace and tables': `Item                      Qty        Unit price          Total
------------------------------------------------------------------
Garden chair, folding       4             39.90         159.60
Parasol                     1            129.00         129.00
                                                     ----------
                                      Sum                288.60



        Signature: ______________________        Date: __________
`,
  formulas: `Let $f\\colon \\mathbb{R}^n \\to \\mathbb{R}$ be convex; then $f(\\lambda x + (1-\\lambda) y) \\le \\lambda f(x) + (1-\\lambda) f(y)$ for $0 \\le \\lambda \\le 1$. $$\\sum_{k=0}^{\\infty} \\frac{x^k}{k!} = e^x, \\qquad \\int_0^1 x^2\\,dx = \\tfrac{1}{3}, \\qquad \\nabla \\cdot \\vec{E} = \\frac{\\rho}{\\varepsilon_0}$$`,
  'emoji and slang': `omg 😂😂 did u see that?? 👀 brb grabbing coffee ☕️ ... ok back 🙌 soooo we're on for sat? 🏖️🌞 lmk asap!! ❤️‍🔥 (also pls bring ur speaker 🔊🎶) kthxbye 👋🏽`,
  'names in capitals': `ATTENTION ALL STAFF: THE FIRE DRILL SCHEDULED FOR WEDNESDAY HAS BEEN MOVED TO THURSDAY AT 10:30. EVACUATE BY THE STAIRS ONLY AND MEET AT THE CAR PARK. CONTACT HR_SAFETY_TEAM OR CALL EXT. 4417 IF YOU NEED ASSISTANCE.`,
};

/** Messages as applications send them. */
export const HELD_OUT_CHATS: Readonly<
  Record<string, readonly { readonly role: 'system' | 'user' | 'assistant'; readonly content: string }[]>
> = {
  'chat of many short turns': [
    { role: 'system', content: 'Answer briefly.' },
    ...['Hi', 'What is 7 x 8?', 'And 7 x 9?', 'ok', 'capital of Peru?', 'population?', 'Thanks!', 'one more: 2^10?', 'cool', 'bye'].flatMap(
      (content, at) =>
        [
          { role: 'user', content },
          {
            role: 'assistant',
            content: ['Hello!', '56', '63', 'Anything else?', 'Lima', 'About ten million.', 'My pleasure.', '1024', ':)', 'Bye!'][at] ?? '',
          },
        ] as const,
    ),
  ],
  'chat with long messages': [
    { role: 'system', content: 'You are a careful editor. Keep the author’s voice, correct grammar, and never add facts.' },
    {
      role: 'user',
      content:
        'Here is the second paragraph of my report. The harbour were closed for two weeks because the dredger, which had been leased from a company in Rotterdam, could not passed the lock at low water. Meanwhile the fishing fleet moored upstream, what caused some arguing with the ferry operators about who may use the pontoon and when.',
    },
    {
      role: 'assistant',
      content:
        'The harbour was closed for two weeks because the dredger, which had been leased from a company in Rotterdam, could not pass the lock at low water. Meanwhile the fishing fleet moored upstream, which caused some arguments with the ferry operators about who could use the pontoon, and when.',
    },
    { role: 'user', content: 'Good. Now make it half as long.' },
  ],
};

/** Tools as an agent declares them. */
export const HELD_OUT_TOOLS: readonly object[] = [
  {
    type: 'function',
    function: {
      name: 'search_invoices',
      description: 'Finds invoices of a customer. Returns at most fifty, newest first; use `cursor` for more.',
      parameters: {
        type: 'object',
        properties: {
          customer_id: { type: 'string', description: 'As shown in the customer list, for example C-20418' },
          status: { type: 'string', enum: ['draft', 'open', 'paid', 'void', 'uncollectible'] },
          min_total: { type: 'number', minimum: 0 },
          issued_after: { type: 'string', format: 'date' },
          cursor: { type: ['string', 'null'] },
        },
        required: ['customer_id'],
        additionalProperties: false,
      },
      strict: true,
    },
  },
  {
    type: 'function',
    function: {
      name: 'send_reminder',
      description: 'Sends a payment reminder by e-mail. Ask the user before calling it twice for the same invoice.',
      parameters: {
        type: 'object',
        properties: {
          invoice_id: { type: 'string' },
          tone: { type: 'string', enum: ['friendly', 'firm'] },
          copy_to: { type: 'array', items: { type: 'string' } },
        },
        required: ['invoice_id', 'tone'],
      },
    },
  },
];
