#include "calibration/texts.h"

namespace pith {

namespace {

constexpr const char* kProse =
    R"(The ferry to Sark Holm left twice a day in summer and, after the first week of October, only when the skipper felt like it. On the morning that Ingrid Vale came down to the quay with two suitcases and a crate of books, the skipper did not feel like it at all. He sat on an upturned fish box with a mug of tea between his boots and looked at the sky over the breakwater, which was the colour of a slate that somebody has wiped with a wet sleeve.

"Wind's going round," he said. "You'd have a rough crossing, and I'd have a rougher one back, alone."

"I was told that the school opens on Monday."

"The school has opened on a Monday for a hundred and ten years. It'll open with a teacher or without one. There are six children, and the eldest can read."

She put the suitcases down. The crate she kept under her arm, because the planks were wet and the books were not hers: they had been lent by the county library against her signature, thirty-one volumes, each with a number inked on the spine. She had carried them on two trains and a bus. She thought of the list in her coat pocket, of the blackboard that the last teacher's letter described as more grey than black, and of the stove that had to be lit by seven if the ink was not to freeze.

"How rough?" she asked.

The skipper looked at her for the first time. He was younger than his voice, with a burn scar that ran from the wrist into the sleeve of his jersey. "My mother went over in worse, the night I was born. She never forgave the boat for it." He drank what was left of the tea and shook the dregs onto the stones. "There's a slack before the turn, about eleven. If the engine starts at the first pull, we go. If it doesn't, you sleep at the Anchor, and I'll hear no more about Mondays."

The engine started at the second pull. He stood over it with the cord in his hand, listening, and Ingrid said nothing, since she had seen that he was not a man to be hurried by a word. At last he wiped his palm on his trousers. "It was the damp," he said. "That doesn't count."

So they went out past the lamp at the end of the breakwater, with the crate lashed beneath the thwart under a square of tarpaulin. The swell lifted them without haste, and let them down, and lifted them again. Behind them the town shrank to a row of chimneys. Once, when a sea came over the bow and ran along the bottom boards, she moved her feet to keep them from the water, found that there was nowhere to move them to, and laughed. The skipper turned his head at the sound. He told her then about the island, in pieces, between one wave and the next: about the well that tasted of iron, the two families that had not spoken since the matter of the ram, the old lighthouse where the schoolroom was, because it was the only building with a roof that had never leaked. The lamp had been taken away in the war. The stairs were still there, ninety-four of them, and the children were forbidden to climb beyond the second landing, and did.

"What happened to the teacher before me?" Ingrid asked.

"Married," said the skipper. "And the one before that was frightened of the wind. You get a deal of wind, in a lighthouse."

"I grew up beneath a railway bridge," she said. "I shall miss the noise if there isn't any."

By noon the rain had come, a fine slanting rain that hid the mainland first and then the island they were going to, so that for half an hour they moved in the middle of a grey disc, which went along with them. He steered by the swell and by a compass no larger than a plum. When the cliff stepped out of the mist it was so near that she could see the nests on it, empty now, and the white streaks beneath each ledge. There was a ladder, a rope, and at the top of the ladder a boy of about twelve in a coat made for somebody else.

"Is that her?" the boy shouted. "Has she brought the books?"

Ingrid looked at the crate. The tarpaulin had slipped at one corner, and the number on the nearest spine had begun to run. She put her thumb over it, as if that would help, and called back that she had brought them, all thirty-one, and that he might start by carrying the dry ones.)";

constexpr const char* kQuestions =
    R"(Paragraph 1. The Halden glass works was founded in 1847 by two brothers, Anton and Jakob Reuss, beside a beech forest that fed its furnaces. For the first decade it made bottles for mineral water. After a fire destroyed the drying sheds in 1861, Jakob sold his half to a Dutch merchant, Pieter Soll, who introduced coloured window glass and sold it to churches as far away as Tallinn.

Paragraph 2. The grey-backed tern breeds on only four islands. Pairs share the incubation of a single egg for about thirty-four days and change places at dusk. Chicks are fed on small squid, never on fish. Since rats were removed from Motu Iti in 2009, the number of nests there has grown from eighteen to more than four hundred.

Paragraph 3. In the winter of 1932 the engineer Marta Olin measured the temperature of the lake at Vassby every hour for ninety days. Her notebooks show that the water turned over twice, not once as textbooks claimed, and that the second overturn followed a storm on the ninth of February. She published the result in a railway journal, because no journal of physics would take it.

Paragraph 4. The recipe for Corvan bread calls for rye flour, buttermilk, caraway and a spoonful of dark honey. The dough rests for fourteen hours in a cool cellar, and it is baked on cabbage leaves, which leave their veins printed on the crust. In the town itself it is eaten with smoked plums on the last Sunday of November, the day of the bell-ringers.

Paragraph 5. The bridge over the Tamsel was the first in the province to be built without scaffolding. Its designer, Ewa Kranz, let the two halves grow from the banks towards each other, held by cables anchored in the rock. They met on the third of June 1911 with an error of eleven millimetres. The toll was abolished in 1926, and the toll house became a post office.

Paragraph 6. Deep Blue Line is a board game for three to five players. Each player commands a cable ship and must lay telegraph cable between six ports. Storm cards close a sea region for two rounds; a player who owns a lighthouse may ignore one storm in each game. The winner is the first to send a message around the whole board, whatever the scores.

Paragraph 7. The composer Lucian Feray wrote his only symphony in a sanatorium at Brenn, on the backs of temperature charts. The slow movement quotes a song that the night nurse used to hum. He died in 1908, four months before the first performance, which was conducted by his pupil Clara Weiss and interrupted by a power cut in the finale.

Question: Who bought Jakob Reuss's half of the glass works?
Answer: Pieter Soll, a Dutch merchant.

Question: What are the chicks of the grey-backed tern fed on?
Answer: Small squid, never fish.

Question: Why did Marta Olin publish in a railway journal?
Answer: Because no journal of physics would take her result.

Question: On what is Corvan bread baked?
Answer: On cabbage leaves.

Question: By how much did the halves of the bridge over the Tamsel miss each other?
Answer: By eleven millimetres.

Question: What may a player who owns a lighthouse do?
Answer: Ignore one storm in each game.

Question: Who conducted the first performance of Feray's symphony?
Answer: His pupil Clara Weiss.

Question: How many nests of the tern were there on Motu Iti before the rats were removed?
Answer: Eighteen.

Question: When did the second overturn of the lake at Vassby happen?
Answer: After a storm on the ninth of February 1932.

Question: What did the Halden glass works make first?
Answer: Bottles for mineral water.)";

constexpr std::array kFiller = {
    "The grass in the meadow is green and the sky above it is blue. ",
    "A cart goes along the road in the morning and comes back in the evening. ",
    "Some days it rains for an hour, and then the sun comes out again. ",
    "The baker opens his shop, the shop is warm, and people come in one by one. ",
    "There is nothing new to report, and the river runs on as it always did. ",
    "Children play in the yard until somebody calls them in. ",
    "In the afternoon it is quiet, and a dog sleeps beside the door. ",
};

constexpr std::array kNeedles = {
    "The password of the north gate is velvet-4471. ",
    "Doctor Amsel keeps the spare key under the third flowerpot. ",
    "The telephone number of the harbour office is 820 5936. ",
    "Mara's favourite colour is the orange of a ripe persimmon. ",
    "The treasure is buried seventeen paces east of the old windmill. ",
    "Train number 6203 leaves from platform nine at 14:52. ",
    "The name of the captain's parrot is Quillon. ",
    "The safe opens with the digits 3, 9, 0, 7, 1, 8. ",
};

/// Filler that goes round, with a fact after every eighth sentence.
std::string needles() {
  constexpr size_t kSentencesBetween = 8;
  std::string text;
  size_t sentence = 0;
  for (const char* needle : kNeedles) {
    for (size_t i = 0; i < kSentencesBetween; ++i) {
      text += kFiller[sentence++ % kFiller.size()];
    }
    text += needle;
  }
  return text + kFiller[0];
}

}  // namespace

std::array<std::string, 3> calibration_texts() { return {kProse, kQuestions, needles()}; }

}  // namespace pith
